"""A run killed in a node's swap to v1.37.0, and a new one to v1.37.1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.steps.nodes.fleet import NEW, OLD, Fleet
from tests.unit.steps.nodes.test_new_run import plan_again
from upgrader.errors import StepFailed
from upgrader.model.version import KubernetesVersion
from upgrader.steps.nodes.step import NodesStep

OTHER = KubernetesVersion(1, 37, 0)


def interrupted(kept: KubernetesVersion) -> tuple[Fleet, NodesStep]:
    """A node whose swap to v1.37.0 was killed after the kubelet's restart; and the step of a new run to v1.37.1."""
    fleet = Fleet("worker-1")
    fleet.step().batch.cordons.cordon("worker-1", "swap")  # it was at v1.36.3
    fleet.set_node("worker-1", OTHER)
    fleet.kept["worker-1"] = kept
    return fleet, fleet.step(planned=replace(fleet.step().planned, nodes=plan_again(fleet)))


@pytest.mark.parametrize("kept", [OLD, OTHER])
def test_failed_node_goes_back_to_what_its_restore_point_has(kept: KubernetesVersion) -> None:
    """Killed before the swap's end, the restore point has v1.36.3; killed after it, v1.37.0. Either is a success, the
    message has the right one, and the rollback of the run leaves the node there.
    """
    fleet, step = interrupted(kept)
    fleet.never_ready.add("worker-1")
    point = step.capture()
    with pytest.raises(StepFailed) as caught:
        step.apply(fleet.notes.append)
    assert f"its old binaries were restored: it is at {kept}, and Ready" in caught.value.message
    assert fleet.state() == {"worker-1": str(kept)}
    step.undo(point, fleet.notes.append)
    assert fleet.state() == {"worker-1": str(kept)}
    assert fleet.ran == ["upgrade-node.yml worker-1", "restore-node.yml worker-1"]


def test_rollback_in_the_middle_takes_what_the_restore_point_has() -> None:
    """The new run is killed as well, and rolled back."""
    fleet, step = interrupted(OLD)
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": str(OLD)}
    assert f"worker-1: Ready with kubelet {OLD}; uncordoned" in fleet.notes


def test_node_that_is_back_with_neither_says_which_it_may_have() -> None:
    """Something else than the restore point's is in place: that is no success."""
    fleet, step = interrupted(NEW)
    fleet.never_ready.add("worker-1")
    with pytest.raises(StepFailed, match=f"restoring it to {OTHER} or {OLD} failed, and it stays cordoned"):
        step.apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": f"{NEW} cordoned marked"}
