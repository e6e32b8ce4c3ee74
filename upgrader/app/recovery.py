"""`upgrader recover`: restore an unreachable API server from the checkpoints on the controllers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import cluster_lock, locked_folder
from upgrader.app.observe_cluster import server_version
from upgrader.app.wiring import Session, open_session
from upgrader.errors import ApiError, RollbackFailed, UsageError
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.model.cluster import Cluster
from upgrader.model.release import RECOVERED_RELEASE
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.pipeline import RecoverTools, recover_pipeline, recovered
from upgrader.recover.steps.release_recovery import NAMESPACE, lost_records

__all__ = ["ProposedRecovery", "propose_recovery"]

_UNREAD = (
    "Without the API, it is unknown whether a controller is left out of runs. If this run waits for such a "
    "controller, interrupt the run once the API answers, and run the command again: it then continues without that "
    "controller."
)


@dataclass(frozen=True)
class ProposedRecovery:
    """What was found on the controllers, and what a recovery would do about it."""

    seen: Diagnosis
    tools: RecoverTools
    pipeline: Pipeline
    session: Session
    front_end: FrontEnd

    @cached_property
    def missing(self) -> str:
        """What is not healthy although the API answers; "" when nothing, or when the API doesn't answer.

        Asks the gates, so it may take time: show `seen` first.
        """
        if not self.seen.healthy:
            return ""
        with self.front_end.busy("checking the health gates…"):
            return recovered(self.tools, self.front_end.doing)

    @property
    def needed(self) -> bool:
        """Whether there is anything to recover."""
        return not self.seen.healthy or bool(self.missing)

    def check_installed(self) -> None:
        """Raises RollbackFailed, with what to do, where all that is missing is the release of kube-apiserver."""
        if not self.seen.healthy or self.tools.helm.history(RECOVERED_RELEASE, NAMESPACE):
            return
        kube = self.tools.kube
        if lost := lost_records(kube):
            raise RollbackFailed(lost.message, remedy=lost.remedy)
        try:
            version = str(server_version(kube).binary)
        except ApiError:
            version = "VERSION"
        own = kube.list(PODS, NAMESPACE, labels="component=kube-apiserver,tier=control-plane")
        raise RollbackFailed(
            f"release {RECOVERED_RELEASE} is not installed, so a recovery can't roll it back. The API answers, "
            + ("from kubeadm's own static pods" if own else "from its standby pod"),
            remedy="upgrader adopt" if own else f"Install it again at the running version: upgrader run --to {version}",
        )

    def check_possible(self) -> None:
        """Raises RollbackFailed, with what to do, where manual action is required first."""
        if self.seen.blocked:
            remedies = [item.remedy for item in self.seen.findings if item.severity == "error" and item.remedy]
            raise RollbackFailed(
                f"manual action is required: {self.seen.blocked}",
                remedy=remedies[0] if remedies else "See the findings above.",
            )

    def execute(self) -> FinishedRun:
        """Execute it.

        Without an API, or with one that refuses the credentials, there is no lock to take, and no other run's Helm can
        work either.
        """
        self.check_possible()
        session = self.session.without_probe()  # without an API, requests are expected to fail
        seen = self.seen.api
        locks = seen.answers and not seen.credentials
        lock = cluster_lock(session, self.front_end, take_over=False) if locks else nullcontext(None)
        with lock as held:
            return execute_run(
                session, self.front_end, NewRun(RunKind.RECOVER, self.pipeline, on_failure="stop"), held=held
            )


@contextmanager
def propose_recovery(
    folder: Path, only: tuple[str, ...], front_end: FrontEnd, *, dry_run: bool
) -> Iterator[ProposedRecovery]:
    """Examine the controllers, or only those that `only` names; `dry_run` takes no lock."""
    with (
        front_end.busy(),
        open_session(folder) as opened,
        nullcontext() if dry_run else locked_folder(folder),
    ):
        _check_names(opened.cluster, only)
        # Nothing is asked on a controller that is left out, and no gate waits for it.
        session = opened.without_left_out(front_end.notify, unread=_UNREAD)
        _check_left_out(session.left_out, only)
        tools = session.recover_tools(only)
        front_end.doing("examining the controllers…")
        seen = tools.examine()
        front_end.doing("")
        yield ProposedRecovery(seen, tools, recover_pipeline(seen, tools), session, front_end)


def _check_left_out(left_out: Iterable[str], only: tuple[str, ...]) -> None:
    """Raises UsageError where `only` names one of them."""
    for name in left_out:
        if name in only:
            raise UsageError(
                f"controller {name} is left out of runs: nothing is recovered there",
                remedy=f"When it is back: upgrader resume. To recover the others: omit --host {name}.",
            )


def _check_names(cluster: Cluster, names: tuple[str, ...]) -> None:
    known = [host.name for host in cluster.controllers]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)}: not a controller in the inventory", remedy=f"Controllers: {', '.join(known)}"
        )
