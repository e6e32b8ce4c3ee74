"""The ways to upgrade a control plane, and how each handles a bad flag."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from bench.recovery.measure import Site
from bench.sidebyside import helm, kubeadm, stages
from bench.sidebyside.trial import BAD_FLAG_PUSHED, Mark
from testkit.command import REPOSITORY
from testkit.lab_cluster import until
from testkit.pushed_changes import BAD_FLAG, OLD_STYLE
from upgrader.errors import ApiError

__all__ = ["WAYS", "MarkIt", "Way", "journal_marks"]

_CHARTS = REPOSITORY / "charts"
_APISERVER, _REST = "kube-apiserver", "kubernetes"


class MarkIt(Protocol):
    """Marks that something begins: now, or `wall` seconds after 1970."""

    def __call__(self, text: str, wall: float | None = None) -> None: ...


class Way(Protocol):
    """One way."""

    @property
    def name(self) -> str:
        """What it is called on the command line and in the figures."""
        ...

    @property
    def title(self) -> str:
        """What it is called on the page."""
        ...

    @property
    def stage(self) -> str:
        """The lab's state at its start."""
        ...

    def upgrade(self, site: Site, target: str, mark: MarkIt) -> str:
        """Upgrade until its commands have ended; returns the errors on the way. Raises what ended it."""
        ...

    def bad_flag(self, site: Site, target: str, mark: MarkIt, patience_seconds: float) -> str:
        """Push a flag that kube-apiserver doesn't know, and roll back; returns who did that, and how.

        Marks the start of kube-apiserver's change as BAD_FLAG_PUSHED. Raises TimeoutError after `patience_seconds`
        without a rollback.
        """
        ...


@dataclass(frozen=True)
class Kubeadm:
    """Static pods; kubeadm changes one manifest after the other."""

    name: str = "kubeadm"
    title: str = "(a) `kubeadm upgrade apply`"
    stage: str = stages.KUBEADM

    def upgrade(self, site: Site, target: str, mark: MarkIt) -> str:
        code = kubeadm.upgrade_first(site, target, mark)
        code = code or kubeadm.upgrade_others(site, stages.controllers(site)[1:], mark)
        if code:
            raise AssertionError(f"kubeadm ended with {code}")
        return ""

    def bad_flag(self, site: Site, target: str, mark: MarkIt, patience_seconds: float) -> str:
        kubeadm.want_bad_flag(site)

        def first(text: str) -> None:
            mark(BAD_FLAG_PUSHED if text == _APISERVER else text)

        code = kubeadm.upgrade_first(site, target, first, timeout_seconds=patience_seconds)
        if code != 124:
            return f"kubeadm itself, exit code {code}"
        mark("manifest put back")
        kubeadm.put_manifest_back(site)
        return f"kubeadm didn't restore the manifest within {patience_seconds:.0f} s; an operator put the old one back"


@dataclass(frozen=True)
class OldStyle:
    """kube-apiserver in an older chart, with checkpoints; bare Helm."""

    name: str
    title: str
    stage: str
    plural: str
    wait: bool
    """Whether Helm can wait for it: not if the API becomes unreachable meanwhile."""

    def upgrade(self, site: Site, target: str, mark: MarkIt) -> str:
        mark(_APISERVER)
        words = [str(OLD_STYLE), "--reuse-values", "--set-string", f"kubernetesVersion={target}"]
        wrong = helm.upgrade(site, _APISERVER, words, wait=self.wait)
        until(
            "the new pods",
            lambda: helm.rolled_out(site, self.plural, _APISERVER),
            timeout_seconds=helm.PATIENCE_SECONDS,
        )
        mark(_REST)
        wrong += helm.upgrade(site, _REST, _own(site, _REST, target))
        return "; ".join(wrong)

    def bad_flag(self, site: Site, target: str, mark: MarkIt, patience_seconds: float) -> str:
        words = [str(OLD_STYLE), "--reuse-values", "--set-string", f"flags.{BAD_FLAG}=true"]
        return _push_and_roll_back(site, words, mark, patience_seconds, wait=self.wait)


@dataclass(frozen=True)
class BareCharts:
    """This project's charts, without `upgrader`: bare Helm, no gates."""

    name: str = "charts"
    title: str = "the charts of (d), bare `helm upgrade --wait`"
    stage: str = stages.ADOPTED

    def upgrade(self, site: Site, target: str, mark: MarkIt) -> str:
        wrong = []
        for release in (_APISERVER, _REST):
            mark(release)
            wrong += helm.upgrade(site, release, _own(site, release, target))
        return "; ".join(wrong)

    def bad_flag(self, site: Site, target: str, mark: MarkIt, patience_seconds: float) -> str:
        words = [*_own(site, _APISERVER, target), "--set-string", f"extraArgs.{BAD_FLAG}=true"]
        return _push_and_roll_back(site, words, mark, patience_seconds, wait=True)


@dataclass(frozen=True)
class Run:
    """`upgrader run`."""

    name: str = "run"
    title: str = "(d) `upgrader run`"
    stage: str = stages.ADOPTED

    def upgrade(self, site: Site, target: str, mark: MarkIt) -> str:
        code = self._run(site, target, mark)
        if code:
            raise AssertionError(f"upgrader run ended with {code}")
        return ""

    def bad_flag(self, site: Site, target: str, mark: MarkIt, patience_seconds: float) -> str:
        site.cluster.change_values(_APISERVER, {"extraArgs": {BAD_FLAG: "true"}})

        def first(text: str, wall: float | None = None) -> None:
            mark(BAD_FLAG_PUSHED if text == _APISERVER else text, wall)

        # A bad flag is refused before anything changes; what is measured is the way back.
        return f"upgrader rolled back by itself, with exit code {self._run(site, target, first, skip='trial.refused')}"

    def _run(self, site: Site, target: str, mark: MarkIt, *, skip: str = "") -> int:
        ended = site.cluster.run(target, skip=skip)
        for found in journal_marks(site.cluster.journal()):
            mark(found.text, found.seconds)
        return ended.exit_code


def journal_marks(journal: list[Any]) -> list[Mark]:
    """When steps and undos of a run began, in seconds after 1970, from the lines of its journal."""
    names = {"StepStarted": "{}", "StepApplied": "gates", "UndoStarted": "undo {}", "RunEnded": "end"}
    return [
        Mark(datetime.fromisoformat(line["time"]).timestamp(), names[line["type"]].format(line["data"].get("step", "")))
        for line in journal
        if line["type"] in names
    ]


def _push_and_roll_back(site: Site, words: list[str], mark: MarkIt, patience_seconds: float, *, wait: bool) -> str:
    good = helm.deployed_revision(site, _APISERVER)
    mark(BAD_FLAG_PUSHED)
    waiting = ("--wait", "--timeout", f"{patience_seconds:.0f}s") if wait else ()
    result = "Helm reported success"
    try:
        site.cluster.helm("upgrade", _APISERVER, *words, *waiting, timeout_seconds=patience_seconds + 20)
    except ApiError as error:
        result = f"Helm gave up ({helm.message_of(error)})"
    if not wait:  # an operator notices when the API is gone
        until("the API to be gone", lambda: not helm.api_answers(site), timeout_seconds=patience_seconds)
    mark("helm rollback")
    tries = helm.roll_back(site, _APISERVER, good, patience_seconds)
    return f"{result}; an operator then ran `helm rollback`, which needed {tries} {'try' if tries == 1 else 'tries'}"


def _own(site: Site, release: str, target: str) -> list[str]:
    """This project's chart with the cluster's own values."""
    values: Path = site.cluster.folder / "values" / f"{release}.yaml"
    # `upgrader` takes over kubeadm's kube-proxy and CoreDNS in the same way.
    words = ["--values", str(values), "--set-string", f"kubernetesVersion={target}", "--force-conflicts"]
    return [str(_CHARTS / release), *words]


WAYS: tuple[Way, ...] = (
    Kubeadm(),
    OldStyle(
        "daemonset",
        "(b) checkpointed DaemonSet, bare `helm upgrade`",
        stages.DAEMONSET,
        "daemonsets",
        wait=False,
    ),
    OldStyle(
        "shared-port",
        "(c) Deployment on a shared port, bare `helm upgrade --wait`",
        stages.SHARED_PORT,
        "deployments",
        wait=True,
    ),
    BareCharts(),
    Run(),
)
