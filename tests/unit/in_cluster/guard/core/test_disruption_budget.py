"""Which evictions the API server is certain to refuse because of a PodDisruptionBudget."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import member
from upgrader.in_cluster.guard.core.disruption_budget import read, reader, refusal
from upgrader.in_cluster.guard.core.workloads import Pod

LABELS = {"app": "web"}
READY, UNREADY = member("web-0", labels=LABELS), member("web-0", labels=LABELS, ready_since=None)


def item(name: str = "web", selector: object = None, policy: str = "", **status: Any) -> dict[str, Any]:
    """A budget of two pods that need two, as its controller has seen it."""
    counts = {"observedGeneration": 3, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2}
    spec = {"selector": {"matchLabels": LABELS} if selector is None else selector}
    found = {"metadata": {"namespace": "ns", "name": name, "generation": 3}, "status": {**counts, **status}}
    return {**found, "spec": {**spec, **({"unhealthyPodEvictionPolicy": policy} if policy else {})}}


def said(pod: Pod, *items: dict[str, Any]) -> str:
    """Why the pod isn't evicted."""
    return refusal(pod, map(read, items))


def test_a_budget_without_room_is_named_with_its_numbers() -> None:
    """As the API server names them."""
    told = "PodDisruptionBudget ns/web allows no eviction of pod ns/web-0 now: it needs 2 healthy pods, and has 2"
    assert said(READY, item()) == told
    assert said(READY, item(disruptionsAllowed=1)) == ""
    assert said(READY, item(selector={})) == told, "an empty selector selects all pods of its namespace"


def test_a_budget_that_its_controller_has_not_seen_allows_nothing() -> None:
    """Whatever it allowed before its last change."""
    told = "PodDisruptionBudget ns/web allows no eviction of pod ns/web-0 now: its last change isn't processed yet"
    assert said(READY, item(disruptionsAllowed=5, observedGeneration=2)) == told
    assert said(READY, {**item(), "status": {}}) == told and said(READY, {**item(), "status": None}) == told


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "refused"),
    [
        ("", 1, 2, True),
        ("", 2, 2, False),
        ("", 0, 0, True),
        ("IfHealthyBudget", 1, 2, True),
        ("AlwaysAllow", 1, 2, False),
    ],
)
def test_an_unready_pod_is_evicted_by_the_budgets_own_policy(
    policy: str, healthy: int, desired: int, refused: bool
) -> None:
    """By default while the workload has what it needs; a Ready one is never."""
    budget = item(policy=policy, currentHealthy=healthy, desiredHealthy=desired)
    assert bool(said(UNREADY, budget)) is refused and said(READY, budget)


@pytest.mark.parametrize("changes", [{"phase": "Pending"}, {"phase": "Failed"}, {"terminating": True}])
def test_what_goes_anyway_or_has_not_begun_is_not_asked_about(changes: dict[str, Any]) -> None:
    """The API server evicts it whatever budgets say."""
    assert said(member("web-0", labels=LABELS, **changes), item()) == ""


@pytest.mark.parametrize(
    "items",
    [
        [],
        [item(), item("other")],
        [item(selector={"matchLabels": {"app": "db"}})],
        [item(), item("of-all", selector={})],
        [item(selector={"matchExpressions": [{"key": "app", "operator": "Strange"}]})],
        [{**item(), "spec": {}}],
        [{**item(), "metadata": {"namespace": "other", "name": "web"}}],
    ],
)
def test_where_it_is_not_certain_nothing_is_said(items: list[dict[str, Any]]) -> None:
    """Then the API server decides, as without guard: several budgets of a pod are an error of its own."""
    assert said(READY, *items) == ""


@pytest.mark.parametrize(
    ("selector", "may_select"),
    [
        ({"matchLabels": LABELS}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchLabels": {**LABELS, "tier": "front"}}, False),
        ({"matchLabels": {}}, True),
        ({}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}, False),
    ],
)
def test_only_budgets_that_may_select_a_pod_are_read(selector: object, may_select: bool) -> None:
    """Of a namespace with hundreds; none is left out that selects the pod."""
    kept = reader([member("other-0", labels={"app": "cache"}), READY])(item(selector=selector))
    assert (kept is not None) is may_select and read(item(selector=selector)).selects(READY) <= may_select
    assert reader([READY])({**item(), "spec": {}}) is not None and reader([READY])({**item(), "spec": None}) is not None
