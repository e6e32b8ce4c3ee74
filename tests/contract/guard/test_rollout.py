"""Rollouts of groups on a real API server: upstream's TestRolloutHappyCase, and what happens to leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from tests.contract.guard.conftest import Pair
from tests.contract.guard.looks import look_again
from tests.contract.guard.zones import Zones, zones
from upgrader.ports import Kind

EVENTS = Kind("v1", "events")
ROLLOUT = ("-roles=rollout", "-kubernetes.namespace=shop")


@pytest.fixture
def roller(pair: Pair, tmp_path: Path) -> Iterator[GuardProcess]:
    """A replica that rolls."""
    with guard_process(tmp_path / "roller", pair.kubeconfig, *ROLLOUT) as guard:
        guard.wait_ready()
        yield guard
        guard.end()


def becomes(what: str, holds: Callable[[], bool], seconds: float = 120) -> float:
    """Wait until it is so; how long that took."""
    return until(what, holds, timeout_seconds=seconds, interval_seconds=0.05)


def is_gone(group: Zones, name: str) -> Callable[[], bool]:
    """Whether a set has no pod left: there is no kubelet, so that one that is deleted is gone."""
    return lambda: not group.pods(name)


def test_v2_goes_through_three_zones_one_by_one(pair: Pair, roller: GuardProcess) -> None:
    """Only a's pod is replaced, and as long as it isn't Ready nothing else is; then b's, then c's. At the end the
    status says that v2 is current.
    """
    with zones(pair.kube) as group:
        a, b, c = group.names
        for name in group.names:
            group.template(name, "v2")
        becomes("a to be deleted", is_gone(group, a))
        group.controller(a)
        look_again(roller, pair.kube, group)
        assert group.revisions() == [f"{a}-0:v2-", f"{b}-0:v1", f"{c}-0:v1"]
        for before, after in ((a, b), (b, c)):
            group.make_ready(before)
            becomes(f"{after} to be deleted", is_gone(group, after))
            group.controller(after)
        group.make_ready(c)
        becomes("v2 to be current everywhere", lambda: {group.current(name) for name in group.names} == {"v2"})
        assert group.revisions() == [f"{name}-0:v2" for name in group.names]


def test_a_bad_template_is_replaced_where_it_is(pair: Pair, roller: GuardProcess) -> None:
    """rollout-operator#339: v2 never gets Ready in zone a, and v3 mends it: a's pod is replaced first, without any
    budget, and b and c were never touched.
    """
    with zones(pair.kube) as group:
        a, b, c = group.names
        for name in group.names:
            group.template(name, "v2")
        becomes("a to be deleted", is_gone(group, a))
        group.controller(a)
        for name in group.names:
            group.template(name, "v3")
        becomes("the bad one to be deleted", is_gone(group, a))
        group.controller(a)
        assert group.revisions() == [f"{a}-0:v3-", f"{b}-0:v1", f"{c}-0:v1"]


def test_a_group_that_cannot_be_rolled_says_why(pair: Pair, roller: GuardProcess) -> None:
    """A set that isn't OnDelete: an Event on it, and nothing is deleted."""
    with zones(pair.kube, count=2) as group:
        changed = Kind("apps/v1", "statefulsets")
        pair.kube.patch(changed, group.names[1], {"spec": {"updateStrategy": {"type": "RollingUpdate"}}}, "shop")
        for name in group.names:
            group.template(name, "v2")

        def told() -> bool:
            found = pair.kube.list(EVENTS, "shop", fields=f"involvedObject.name={group.names[1]}")
            return [each["reason"] for each in found] == ["RolloutSkipped"]

        becomes("the Event", told)
        assert group.revisions() == [f"{name}-0:v1" for name in group.names]


def test_a_leader_that_is_killed_loses_nothing(pair: Pair, tmp_path: Path) -> None:
    """Right after its first deletion. The other replica takes over, deletes nothing while that pod isn't Ready, and
    goes on then.
    """
    with ExitStack() as stack, zones(pair.kube, count=2) as group:
        leader, follower = (
            stack.enter_context(guard_process(tmp_path / name, pair.kubeconfig, *ROLLOUT)) for name in ("one", "two")
        )
        becomes("one of them to lead", lambda: says(leader, "leading") or says(follower, "leading"), seconds=120)
        if says(follower, "leading"):
            leader, follower = follower, leader
        follower.wait_ready()
        a, b = group.names
        for name in group.names:
            group.template(name, "v2")
        becomes("a to be deleted", is_gone(group, a))
        leader.kill()
        group.controller(a)
        becomes("the other one to lead", lambda: says(follower, "leading"), seconds=120)
        look_again(follower, pair.kube, group)
        assert group.revisions() == [f"{a}-0:v2-", f"{b}-0:v1"]
        group.make_ready(a)
        becomes("b to be deleted", is_gone(group, b))


def says(guard: GuardProcess, message: str) -> bool:
    """Whether it has logged that."""
    return any(line["message"] == message for line in guard.lines())
