"""What PodProtectors protect is whole, and counted, when a run begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.model.finding import Finding
from upgrader.model.gate_settings import GatePolicy, WorkloadGate
from upgrader.model.node_settings import DrainPolicy, NodePool, NodeSource, OnBlocked
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import PODS
from upgrader.preflight.protectors import check_protectors
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.step_document import NodeChange


def protect(
    world: World, name: str = "web", *, estimate: int | None = 3, counted: str | None = None, least: int = 3
) -> None:
    """A protector that wants three pods, of which there are three, counted a moment ago unless said otherwise; "":
    never.
    """
    counted = world.kube.server_time().isoformat() if counted is None else counted
    counts = {"totalReplicas": 3, "availableReplicas": 3, **({"lastEventTime": counted} if counted else {})}
    cell = {"cellID": "core", "aggregation": counts}
    summary = {} if estimate is None else {"estimatedAvailableReplicas": estimate}
    found = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
        "status": {"cells": [cell], "summary": summary},
    }
    world.kube.put(POD_PROTECTORS, found)


def test_whole_protectors_are_no_finding(world: World) -> None:
    """Neither is a cluster without any, nor one that doesn't know their kind."""
    assert world.find(check_protectors) == {}
    protect(world)
    assert world.find(check_protectors) == {}


@pytest.mark.parametrize("status", [404, 500])
def test_kind_that_is_not_known(world: World, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """Without the CustomResourceDefinition there is none; what can't be read otherwise is unknown."""
    error = ApiError("HTTP")
    error.status = status

    def refused(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(world.kube, "each", refused)
    found = [finding.id for finding in run_checks(world.context(), [("protectors", check_protectors)])]
    assert found == ([] if status == 404 else ["protectors.unknown"])


@pytest.mark.parametrize(("known", "expected"), [(False, []), (True, ["protectors.forbidden"])])
def test_kind_that_may_not_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch, known: bool, expected: list[str]
) -> None:
    """A right to what the cluster doesn't have is missed by nobody: without guard, that is any credential but an
    administrator's.
    """

    def refused(status: int) -> Callable[..., Any]:
        def answer(*_: Any, **__: Any) -> Any:
            error = ApiError('podprotectors is forbidden: User "x" cannot list resource "podprotectors"')
            error.status = status
            raise error

        return answer

    monkeypatch.setattr(world.kube, "each", refused(403))
    monkeypatch.setattr(world.kube, "raw", (lambda *_, **__: "{}") if known else refused(404))
    found = [finding.id for finding in run_checks(world.context(), [("protectors", check_protectors)])]
    assert found == expected


def test_protector_below_its_minimum(world: World) -> None:
    """It is named, with what there is: the run isn't begun."""
    protect(world)
    protect(world, "api", estimate=2)
    found = world.find(check_protectors)
    assert list(found) == ["protectors.below-minimum"]
    below = found["protectors.below-minimum"]
    assert below.blocking
    assert below.title == "PodProtectors are below their minimum: shop/api"
    assert "at least 2 pods are available" in below.diagnosis


@pytest.mark.parametrize(
    ("status", "fires"),
    [
        ({"estimate": None}, True),
        ({"counted": ""}, True),
        ({"counted": "2025-12-31T23:58:10.123456Z"}, False),
        ({"counted": "2025-12-31T23:57:50Z"}, True),
        ({"counted": "yesterday"}, True),
        ({"counted": "2025-12-31T23:59:50"}, True),
        ({"counted": "2026-01-01T00:09:00Z"}, False),
    ],
)
def test_pods_that_nobody_counts(
    world: World, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any], fires: bool
) -> None:
    """Never, not for two minutes, or at a time that nobody can read."""
    monkeypatch.setattr(world.kube, "server_time", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    protect(world, **status)
    found = world.find(check_protectors)
    assert list(found) == (["protectors.not-counted"] if fires else [])
    assert not fires or (
        found["protectors.not-counted"].blocking and "shop/web" in found["protectors.not-counted"].title
    )


def test_plan_names_the_protectors_that_it_meets(world: World) -> None:
    """All of them where nodes are drained; else those that gates name."""
    protect(world)
    protect(world, "api")
    context = world.context()
    gates = (WorkloadGate("protector", "shop", "web", GatePolicy()),)
    (found,) = check_protectors(replace(context, workload_gates=gates))
    assert (found.id, found.severity, found.title) == (
        "protectors.met",
        "info",
        "PodProtectors can delay the run: shop/web",
    )
    assert drained(world)["protectors.met"].title == "PodProtectors can delay the run: shop/api, shop/web"


def drained(world: World, on_blocked: OnBlocked = "fail") -> dict[str, Finding]:
    """The findings of a plan that drains a worker, by id."""
    context = world.context()
    assert context.plan is not None
    change = NodeChange("worker-1", KubernetesVersion(1, 36, 3), world.target)
    pool = NodePool("workers", drain=DrainPolicy(on_blocked=on_blocked))
    drain = PlannedNodes(pool, (change,), world.target, NodeSource("packages"), 300.0, 1, Path("/p"))
    return {each.id: each for each in check_protectors(replace(context, plan=replace(context.plan, steps=(drain,))))}


@pytest.mark.parametrize(("on_blocked", "severity"), [("fail", "error"), ("force", "warning")])
@pytest.mark.parametrize(
    ("least", "node", "labels", "fires"),
    [
        (3, "worker-1", {"app": "web"}, True),
        (2, "worker-1", {"app": "web"}, False),
        (3, "worker-2", {"app": "web"}, False),
        (3, "worker-1", {"app": "other"}, False),
    ],
)
def test_a_protector_that_lets_no_pod_go_is_named_before_a_drain_waits_for_it(
    world: World, least: int, node: str, labels: dict[str, str], fires: bool, on_blocked: OnBlocked, severity: str
) -> None:
    """As of a Deployment of three replicas, whose rollout keeps all of them; if a pod of it is on a drained node."""
    owner = {"kind": "ReplicaSet", "name": "its", "controller": True}
    meta = {"name": "web-0", "namespace": "shop", "labels": labels, "ownerReferences": [owner]}
    world.kube.put(PODS, {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
    protect(world, least=least)
    found = drained(world, on_blocked)
    assert ("protectors.never-allow" in found) is fires
    if fires:
        never = found["protectors.never-allow"]
        assert never.severity == severity
        assert "shop/web (pod shop/web-0 on worker-1)" in never.title and "maxUnavailable" in never.remedy
