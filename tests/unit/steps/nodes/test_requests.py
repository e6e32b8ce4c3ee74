"""What waiting for many nodes at once costs the API: nothing grows with nodes and time together."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.steps.nodes.fleet import Fleet
from tests.unit.steps.nodes.test_detach import POLICY, Agent
from upgrader.model.node_settings import DrainPolicy

ANSWER_SECONDS = 60.0


def names(nodes: int) -> tuple[str, ...]:
    """That many."""
    return tuple(f"worker-{number:03}" for number in range(nodes))


def counted(fleet: Fleet) -> Counter[str]:
    """The requests from now on, by verb and kind."""
    asked, check = Counter[str](), fleet.kube._check

    def noted(what: str) -> None:
        asked[" ".join(what.split()[:2])] += 1
        check(what)

    fleet.kube._check = noted  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("nodes", [10, 60])
def test_pods_that_a_budget_keeps_are_asked_for_three_times_a_second(nodes: int) -> None:
    """Each at first and in the last two rounds, and in between those of six nodes every two seconds, however many wait:
    a list of pods, an eviction, and a look for who has refused it.
    """
    fleet = Fleet(*names(nodes))
    fleet.add_budget()
    asked = counted(fleet)
    left = fleet.step(drain=DrainPolicy(120.0)).batch.drain.run(fleet.names, fleet.notes.append)
    assert len(left) == nodes
    for what in ("list pods", "evict pod", "list poddisruptionbudgets"):
        assert asked[what] <= 3 * nodes + 3 * fleet.clock.monotonic()


@pytest.mark.parametrize("nodes", [10, 60])
def test_nodes_that_leave_and_join_their_load_balancer_are_read_together(nodes: int) -> None:
    """Each is marked once on each way; a round of the wait is one list, of names and annotations alone."""
    fleet = Fleet(*names(nodes))
    fleet.detach = POLICY
    Agent(fleet, ANSWER_SECONDS)
    asked, detaching = counted(fleet), fleet.step().batch.detaching
    assert detaching.out(fleet.names, fleet.notes.append) == {}
    assert asked["patch nodes"] == asked["get nodes"] == nodes
    assert asked["list nodes"] <= ANSWER_SECONDS + 2
    for name in fleet.names:
        fleet.step().batch.cordons.release(name)
    asked.clear()
    assert detaching.back(fleet.names, fleet.notes.append) == {}
    assert asked["patch nodes"] == nodes and asked["get nodes"] <= 2 * nodes
    assert asked["list nodes"] <= ANSWER_SECONDS + 2


def test_node_that_is_removed_while_many_are_awaited_is_waited_for_no_more() -> None:
    """What comes next tells of it."""
    fleet = Fleet(*names(10))
    fleet.detach = POLICY
    Agent(fleet)
    real, gone = fleet.kube._check, "worker-003"

    def removing(what: str) -> None:
        if fleet.clock.monotonic() > 2:
            fleet.kube._objects.pop(("v1", "nodes", "", gone), None)
            fleet.names = tuple(name for name in fleet.names if name != gone)
        real(what)

    fleet.kube._check = removing  # type: ignore[method-assign]
    assert fleet.step().batch.detaching.out(fleet.names, fleet.notes.append) == {}
    assert fleet.clock.monotonic() < POLICY.deadline_seconds
