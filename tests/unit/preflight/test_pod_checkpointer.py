"""Whether anybody keeps the copies that bring a control plane back."""

from __future__ import annotations

from tests.unit.gates.builders import add_daemonset, add_deployment, add_pod, running
from tests.unit.preflight.conftest import CONTROLLER, World, deployment
from upgrader.model.components import COMPONENTS
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.preflight.context import DAEMONSETS, DEPLOYMENTS, SYSTEM
from upgrader.preflight.pod_checkpointer import check_checkpointer

LABELS = {"app": "pod-checkpointer"}


def unready(world: World) -> None:
    """Let the pod-checkpointer run, but not be Ready."""
    add_daemonset(world.kube, "pod-checkpointer", numberReady=0, numberAvailable=0)
    add_pod(world.kube, "pod-checkpointer", running(ready=False), name="pod-checkpointer-abc", daemon=True)


def test_one_that_runs_without_being_ready_is_enough_for_a_cure(world: World) -> None:
    """It isn't Ready while a crash-looper has no copy: the run that cures the crash-looper must not be refused."""
    unready(world)
    world.kube.put(DEPLOYMENTS, deployment("kube-scheduler"))
    found = world.find(check_checkpointer)["checkpointer.not-ready"]
    assert (found.severity, "is running but not ready" in found.diagnosis) == ("warning", True)


def test_one_that_is_not_ready_in_a_healthy_control_plane_refuses_the_run(world: World) -> None:
    """Nothing that the run changes explains it, and the gates behind the first change would never pass."""
    for name in COMPONENTS:
        add_deployment(world.kube, name)
        add_pod(world.kube, name)
    unready(world)
    assert world.find(check_checkpointer)["checkpointer.not-ready"].severity == "error"


def test_controller_without_one_refuses_the_run(world: World) -> None:
    """A checkpointer that crash-loops keeps no copies: a new kube-apiserver would have no way back from a power cut."""
    world.pod("pod-checkpointer-abc", LABELS, ready=False)
    found = world.find(check_checkpointer)["checkpointer.down"]
    assert found.severity == "error"
    assert CONTROLLER in found.title


def test_static_copy_of_the_checkpointer_counts(world: World) -> None:
    """While its pod is replaced, its own copy does the work."""
    world.pod("pod-checkpointer-abc", LABELS, ready=False)
    world.pod("checkpoint-pod-checkpointer", {CHECKPOINT_OF: "pod-checkpointer"})
    assert "checkpointer.down" not in world.find(check_checkpointer)


def test_run_that_changes_the_checkpointer_may_begin_without_one(world: World) -> None:
    """A run that brings a checkpointer, or another one, is gated by it before anything else is changed."""
    world.kube.delete(DAEMONSETS, "pod-checkpointer", SYSTEM)
    world.manifests["pod-checkpointer"] = ""
    assert world.find(check_checkpointer) == {}


def test_checkpointer_that_was_deleted_behind_helms_back_refuses_the_run(world: World) -> None:
    """Helm takes the release for installed and would change nothing, so nobody would bring the DaemonSet back."""
    world.kube.delete(DAEMONSETS, "pod-checkpointer", SYSTEM)
    assert world.find(check_checkpointer)["checkpointer.missing"].severity == "error"
