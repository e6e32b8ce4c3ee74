"""Whether anybody keeps the copies that bring a control plane back."""

from __future__ import annotations

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.preflight.context import DAEMONSETS, PODS, SYSTEM
from upgrader.preflight.pod_checkpointer import check_checkpointer

LABELS = {"app": "pod-checkpointer"}


def test_one_that_runs_without_being_ready_is_enough(world: World) -> None:
    """It isn't Ready while a crash-looper has no copy: the run that cures the crash-looper must not be refused."""
    pod = world.pod("pod-checkpointer-abc", LABELS)
    pod["status"]["conditions"][0]["status"] = "False"
    world.kube.put(PODS, pod)
    assert world.find(check_checkpointer) == {}


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
    assert world.find(check_checkpointer) == {}


def test_run_that_changes_the_checkpointer_may_begin_without_one(world: World) -> None:
    """A run that brings a checkpointer, or another one, is gated by it before anything else is changed."""
    world.kube.delete(DAEMONSETS, "pod-checkpointer", SYSTEM)
    world.changing = frozenset({"pod-checkpointer"})
    assert world.find(check_checkpointer) == {}


def test_checkpointer_that_was_deleted_behind_helms_back_refuses_the_run(world: World) -> None:
    """Helm takes the release for installed and would change nothing, so nobody would bring the DaemonSet back."""
    world.kube.delete(DAEMONSETS, "pod-checkpointer", SYSTEM)
    assert world.find(check_checkpointer)["checkpointer.missing"].severity == "error"
