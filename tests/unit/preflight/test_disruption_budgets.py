"""PodDisruptionBudgets that would keep a drain from ever ending."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.model.cluster import Host
from upgrader.ports import Kind
from upgrader.preflight.context import PODS
from upgrader.preflight.disruption_budgets import check_disruption_budgets

BUDGETS = Kind("policy/v1", "poddisruptionbudgets")


def budget(
    world: World,
    name: str = "web",
    *,
    namespace: str = "shop",
    selector: Any = "",
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> None:
    """A PodDisruptionBudget over `app=NAME`; of three healthy pods, one may be evicted."""
    found = {"expectedPods": 3, "desiredHealthy": 2, "currentHealthy": 3, "disruptionsAllowed": 1}
    chosen = {"matchLabels": {"app": name}} if selector == "" else selector
    world.kube.put(
        BUDGETS,
        {
            "metadata": {"name": name, "namespace": namespace, "generation": 1, **(meta or {})},
            "spec": {"selector": chosen, **(spec or {"minAvailable": 2})},
            "status": {"observedGeneration": 1, **found, **(status or {})},
        },
    )


def numbers(expected: int, desired: int, healthy: int) -> dict[str, int]:
    """A status as the disruption controller computes it."""
    allowed = max(0, healthy - desired) if expected else 0
    return {
        "expectedPods": expected,
        "desiredHealthy": desired,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
    }


def pod(world: World, name: str = "web-1", phase: str = "Running", **meta: Any) -> None:
    """A pod with the labels `app=web` and `tier=front`, unless `meta` has others."""
    labels = {"app": "web", "tier": "front"}
    meta = {"name": name, "namespace": "shop", "labels": labels, **meta}
    world.kube.put(PODS, {"metadata": meta, "spec": {}, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        ({"minAvailable": "100%"}, numbers(3, 3, 3), "shop/web (minAvailable 100%: 3 of 3 must stay)"),
        ({"maxUnavailable": 0}, numbers(3, 3, 3), "shop/web (maxUnavailable 0: 3 of 3 must stay)"),
        ({"minAvailable": 1}, numbers(1, 1, 1), "shop/web (minAvailable 1: 1 of 1 must stay)"),
        ({"minAvailable": 5}, numbers(3, 5, 2), "shop/web (minAvailable 5: 5 of 3 must stay)"),
    ],
)
def test_budget_without_room(world: World, spec: dict[str, Any], status: dict[str, int], shown: str) -> None:
    """However healthy its pods are, none may be evicted: it is named with its numbers, and what would help."""
    budget(world, status=status, **spec)
    (found,) = world.find(check_disruption_budgets).values()
    assert (found.id, found.severity) == ("disruption-budgets.no-room", "warning")
    assert found.title.endswith(shown) and "maxUnavailable to at least 1" in found.remedy


@pytest.mark.parametrize("status", [numbers(3, 2, 3), numbers(0, 0, 0), numbers(0, 1, 0), numbers(4, 2, 3)])
def test_budget_that_allows_an_eviction_is_no_finding(world: World, status: dict[str, int]) -> None:
    """Nor is one without pods: there is nothing to evict."""
    budget(world, status=status)
    assert world.find(check_disruption_budgets) == {}


def test_many_without_room_are_one_finding(world: World) -> None:
    """A cluster in which every chart brings such a budget gets one line, not hundreds."""
    for number in range(40):
        budget(world, f"web-{number:02}", minAvailable=1, status=numbers(1, 1, 1))
    (found,) = world.find(check_disruption_budgets).values()
    assert "shop/web-00" in found.title and found.title.endswith("and 37 more")


@pytest.mark.parametrize(
    ("name", "chart", "others"),
    [
        ("kube-apiserver", "kube-apiserver-0.1.0", "kube-apiserver-proxy-1.0.0"),
        ("kube-controller-manager", "kubernetes-0.1.0", "kubernetes-dashboard-7.0.0"),
        ("kube-scheduler", "kubernetes-0.1.0", "kube-apiserver-0.1.0"),
    ],
)
def test_budget_of_the_only_instance(world: World, name: str, chart: str, others: str) -> None:
    """Our charts' own, with one controller, are meant to be so; another chart's, or with three, are not."""

    def found(labels: dict[str, str], namespace: str = "kube-system") -> set[str]:
        status = numbers(1, 1, 1)
        budget(world, name, namespace=namespace, meta={"labels": labels}, status=status, minAvailable=1)
        return set(world.find(check_disruption_budgets))

    ours = {"helm.sh/chart": chart}
    assert found(ours) == set()
    for labels in ({}, {"helm.sh/chart": others}):
        assert found(labels) == {"disruption-budgets.no-room"}
    world.cluster = replace(world.cluster, controllers=(Host("a", "10.0.0.2"), Host("b", "10.0.0.3")))
    assert found(ours) == {"disruption-budgets.no-room"}


@pytest.mark.parametrize(
    ("healthy", "policy", "severity", "words"),
    [
        (1, None, "warning", "IfHealthyBudget"),
        (1, "IfHealthyBudget", "warning", "IfHealthyBudget"),
        (1, "AlwaysAllow", "info", "until the others are also Ready"),
        (2, None, "info", "until the others are also Ready"),
    ],
)
def test_unhealthy_pods(world: World, healthy: int, policy: str | None, severity: str, words: str) -> None:
    """With too few healthy ones the default policy protects those that crash, too; otherwise a drain may go on."""
    spec: dict[str, Any] = {"minAvailable": 2, **({"unhealthyPodEvictionPolicy": policy} if policy else {})}
    budget(world, status=numbers(3, 2, healthy), **spec)
    (found,) = world.find(check_disruption_budgets).values()
    assert (found.id, found.severity) == ("disruption-budgets.unhealthy", severity)
    assert f"shop/web ({healthy} Ready, 2 required)" in found.title and words in found.diagnosis


@pytest.mark.parametrize(
    ("meta", "status", "reason"),
    [
        ({"generation": 2}, {}, "has not observed"),
        (
            {},
            {
                "disruptionsAllowed": 0,
                "conditions": [{"reason": "SyncFailed", "status": "False", "message": "no scale"}],
            },
            "shop/web: no scale",
        ),
        ({}, numbers(0, 0, 2), "no controller"),
    ],
)
def test_status_that_says_nothing(world: World, meta: dict[str, Any], status: dict[str, Any], reason: str) -> None:
    """Of an older spec, of an error, or of bare pods: it is neither taken for healthy nor for without room."""
    budget(world, meta=meta, status=status)
    (found,) = world.find(check_disruption_budgets).values()
    assert (found.id, found.severity) == ("disruption-budgets.not-computed", "warning")
    assert reason in found.diagnosis


def test_two_budgets_over_one_pod(world: World) -> None:
    """Neither the one that allows an eviction nor the other counts then: the eviction API answers with an error."""
    budget(world)
    budget(world, "front", selector={"matchLabels": {"tier": "front"}})
    assert world.find(check_disruption_budgets) == {}, "no pod has both labels"
    pod(world)
    pod(world, "web-2")
    (found,) = world.find(check_disruption_budgets).values()
    assert (found.id, found.severity) == ("disruption-budgets.overlap", "warning")
    assert found.title.endswith("shop/web-1 (front, web)"), "once for these two"


@pytest.mark.parametrize(
    "meta",
    [
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
        {"ownerReferences": [{"kind": "DaemonSet", "name": "web", "controller": True}]},
        {"namespace": "elsewhere"},
    ],
)
def test_pods_that_no_drain_evicts(world: World, meta: dict[str, Any]) -> None:
    """Those that end, have yet to start, or stay: their budgets aren't asked, and neither are other namespaces'."""
    budget(world)
    budget(world, "front", selector={"matchLabels": {"tier": "front"}})
    pod(world, **meta)
    assert world.find(check_disruption_budgets) == {}


def test_pods_are_read_only_where_they_may_be_shared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for selectors that exclude each other, for no pods, or for one budget; of two, the smaller one's are read."""
    read: list[tuple[str, str]] = []
    every = world.kube.each

    def each(kind: Kind, namespace: str = "", *, labels: str = "") -> Any:
        if kind == PODS:
            read.append((namespace, labels))
        return every(kind, namespace, labels=labels)

    monkeypatch.setattr(world.kube, "each", each)
    for name in ("a", "b", "c"):
        budget(world, name)
    budget(world, "d", selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["d", "e"]}]})
    budget(world, "nothing", selector=None)
    budget(world, "empty", selector={}, status=numbers(0, 0, 0))
    budget(world, "alone", namespace="bank")
    assert world.find(check_disruption_budgets) == {} and read == []
    budget(world, "all", selector={}, status=numbers(90, 80, 90))
    assert world.find(check_disruption_budgets) == {}
    assert read == [("shop", "app=a"), ("shop", "app=b"), ("shop", "app=c"), ("shop", "app in (d,e)")]
    read.clear()
    for number in range(20):
        budget(world, f"more-{number}")
    assert world.find(check_disruption_budgets) == {} and read == [("shop", "")], "of many, all pods at once"
