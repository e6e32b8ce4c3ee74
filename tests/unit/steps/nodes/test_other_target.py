"""A run killed in a swap to v1.37.0, and a new one to v1.37.1 that fails: the node goes back to where it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.steps.nodes.fleet import OLD, Fleet
from tests.unit.steps.nodes.test_new_run import plan_again
from upgrader.errors import StepFailed
from upgrader.model.version import KubernetesVersion


def test_node_of_another_targets_swap_goes_back_to_what_its_restore_point_has() -> None:
    """A restore point that is `swapping` stays the one to go back to, whatever upgrade comes next."""
    fleet = Fleet("worker-1")
    cordons = fleet.step().batch.cordons
    cordons.cordon("worker-1", "swap")  # before: v1.36.3
    fleet.set_node("worker-1", KubernetesVersion(1, 37, 0))  # restarted; killed before `done`
    fleet.never_ready.add("worker-1")
    planned = replace(fleet.step().planned, nodes=plan_again(fleet))
    with pytest.raises(StepFailed):
        fleet.step(planned=planned).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": str(OLD)}
