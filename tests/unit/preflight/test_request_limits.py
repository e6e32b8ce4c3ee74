"""How many requests the planned kube-apiserver answers at once, compared with the one that runs."""

from __future__ import annotations

import pytest

from tests.unit.preflight.conftest import World, workload
from upgrader.preflight.request_limits import check_request_limits

READS, WRITES = "--max-requests-inflight", "--max-mutating-requests-inflight"


def plan(world: World, before: list[str], after: list[str]) -> None:
    """A kube-apiserver with these flags is replaced by one with those."""
    for manifests, flags in ((world.before, before), (world.manifests, after)):
        container = {"name": "kube-apiserver", "command": ["kube-apiserver"], "args": flags}
        manifests["kube-apiserver"] = workload(container)


def test_far_fewer_requests_at_once_are_a_warning(world: World) -> None:
    """With the flags and both values of each that changes, kube-apiserver's default where none is given."""
    plan(world, [f"{READS}=800"], [f"{READS}=2", f"{WRITES}=1"])
    found = world.find(check_request_limits)["flags.fewer-requests"]
    assert found.severity == "warning"
    assert (
        found.title
        == "release kube-apiserver: kube-apiserver would process at most 3 requests at a time, instead of 1000"
    )
    assert found.diagnosis.startswith(f"{READS}: 800 → 2\n{WRITES}: 200 → 1\n")
    plan(world, [f"{READS}=800"], [f"{READS}=100"])
    assert WRITES not in world.find(check_request_limits)["flags.fewer-requests"].diagnosis


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], []),
        ([f"{READS}=3", f"{WRITES}=2"], [f"{READS}=3", f"{WRITES}=2"]),
        ([], [f"{READS}=300"]),
        ([f"{READS}=10"], []),
        ([], [f"{READS}=many"]),
    ],
    ids=["defaults", "always few", "some fewer", "more", "not a number"],
)
def test_about_as_many_requests_at_once(world: World, before: list[str], after: list[str]) -> None:
    """No finding; what a typing error makes of it is another check's."""
    plan(world, before, after)
    assert world.find(check_request_limits) == {}


def test_first_release_of_a_component_is_compared_with_nothing(world: World) -> None:
    """An adoption takes over the flags of a static pod, and other releases have no kube-apiserver."""
    plan(world, [], [f"{READS}=2"])
    world.before.clear()
    assert world.find(check_request_limits) == {}
    world.manifests = {"kubernetes": workload({"name": "main", "command": ["web"]})}
    assert world.find(check_request_limits) == {}
