"""What was done since a run forbids its rollback."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from upgrader.app.existing_run import ExistingRun
from upgrader.app.front_end import SILENT
from upgrader.app.rollback import RunToRollBack
from upgrader.app.rollback_checks import check_kubelets, check_unchanged
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import Blocked, ChangedMeanwhile
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.model.version import KubernetesVersion

OLD, PATCH, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 36, 4), KubernetesVersion(1, 37, 1)


@pytest.fixture
def helm() -> FakeHelm:
    """A release that a run has upgraded from revision 1 to 2."""
    helm = FakeHelm()
    helm.install("kube-apiserver", "tag: old\n")
    helm.install("kube-apiserver", "tag: new\n")
    return helm


def step(revision: int = 2, point: RestorePoint | None = None) -> StepState:
    """The step of that run."""
    return StepState(
        "kube-apiserver", "passed", "change", point or RestorePoint("kube-apiserver", "kube-system", 1), revision
    )


def test_revision_made_by_hand_is_not_reverted(helm: FakeHelm) -> None:
    """It is somebody's own change: the rollback is refused, and the remedy says how to get rid of it."""
    helm.install("kube-apiserver", "tag: by-hand\n")
    with pytest.raises(ChangedMeanwhile, match="revision 3 is newer than the revision of this run, 2") as caught:
        check_unchanged(helm, [step()])
    assert "helm rollback kube-apiserver 2" in caught.value.remedy
    assert helm.calls == []


@pytest.mark.parametrize("manifest", ["tag: new\n", "tag: old\n"])
def test_later_revision_with_known_content_is_fine(helm: FakeHelm, manifest: str) -> None:
    """A later run that was rolled back, or a `recover`, leaves a new revision with the content of an old one."""
    helm.install("kube-apiserver", manifest)
    check_unchanged(helm, [step()])


@pytest.mark.parametrize(
    "known",
    [
        step(),
        step(revision=0),
        StepState("x", "passed"),
        StepState("reboot", "passed", restore_point=RestorePoint(playbook="undo.yml")),
        step(point=RestorePoint("gone", "kube-system", 1)),
    ],
)
def test_what_there_is_nothing_to_compare_with(helm: FakeHelm, known: StepState) -> None:
    """An unchanged release, a run of an older version, a playbook, a release that is no longer there."""
    check_unchanged(helm, [known])


def test_release_that_the_run_installed(helm: FakeHelm) -> None:
    """Its rollback uninstalls it: not with a change that was made by hand since."""
    new = step(2, RestorePoint("kube-apiserver", "kube-system", None))
    helm.install("kube-apiserver", "tag: by-hand\n")
    with pytest.raises(ChangedMeanwhile):
        check_unchanged(helm, [new])


@pytest.mark.parametrize(("kubelet", "allowed"), [("v1.37.0", False), ("v1.36.9", True), ("v1.35.4", True)])
def test_api_server_does_not_return_below_a_kubelet(kubelet: str, allowed: bool) -> None:
    """A kubelet that was upgraded since must not end up newer than the API server."""
    kube = FakeKube()
    kube.put(NODES, {"metadata": {"name": "worker-1"}, "status": {"nodeInfo": {"kubeletVersion": kubelet}}})
    if allowed:
        check_kubelets(kube, OLD, NEW, [step()])
        return
    with pytest.raises(Blocked, match=r"return to v1\.36\.3, and these kubelets are newer: worker-1 \(v1\.37\.0\)"):
        check_kubelets(kube, OLD, NEW, [step()])
    check_kubelets(kube, OLD, NEW, [StepState("app", "passed", restore_point=RestorePoint("app", "default", 1))])
    check_kubelets(kube, None, None, [step()])


def test_rollback_within_a_minor_asks_no_kubelet() -> None:
    """After a restore, kubelets may be newer than the API server: a patch that was upgraded since can be taken back."""
    kube = FakeKube()
    kube.put(NODES, {"metadata": {"name": "worker-1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.1"}}})
    check_kubelets(kube, OLD, PATCH, [step()])
    with pytest.raises(Blocked):
        check_kubelets(kube, OLD, None, [step()])


def test_kubelets_that_the_rollback_returns_are_no_obstacle() -> None:
    """Nodes are undone before the API server: only those that stay newer are in its way."""
    kube = FakeKube()
    nodes = StepState("nodes-workers", "passed", restore_point=RestorePoint(nodes=(NodeBefore("worker-1", OLD),)))
    kube.put(NODES, {"metadata": {"name": "worker-1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.1"}}})
    check_kubelets(kube, OLD, NEW, [nodes, step()])
    kube.put(NODES, {"metadata": {"name": "worker-2"}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.1"}}})
    with pytest.raises(Blocked, match=r"newer: worker-2 \(v1\.37\.1\)"):
        check_kubelets(kube, OLD, NEW, [nodes, step()])


def _proposed(helm: FakeHelm, kube: FakeKube, current: KubernetesVersion) -> object:
    """The rollback of that run, as the use case proposes it."""
    tools = SimpleNamespace(helm=helm, kube=kube, clock=FakeClock())
    session: Any = SimpleNamespace(tools=tools, settings=SimpleNamespace(pipeline=()))
    state = RunState(run="run-1", current=current, steps=(step(),), outcome="succeeded")
    run = ExistingRun(session, SILENT, SimpleNamespace(lock=SimpleNamespace(taken_over=None)), state, Path())  # type: ignore[arg-type]
    return RunToRollBack(run, named=True).propose("")


def test_rollback_is_proposed_only_after_these_checks(helm: FakeHelm) -> None:
    """`upgrader rollback` itself refuses a revision made by hand, and kubelets that are newer than where it goes."""
    kube = FakeKube()
    assert _proposed(helm, kube, OLD)
    kube.put(NODES, {"metadata": {"name": "c1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.1"}}})
    with pytest.raises(Blocked, match=r"v1\.37\.1"):
        _proposed(helm, kube, OLD)
    helm.install("kube-apiserver", "tag: by-hand\n")
    with pytest.raises(ChangedMeanwhile):
        _proposed(helm, kube, OLD)
