"""When what a PodProtector protects is there, and counted."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.gates.protector_gate import ProtectorGate, ProtectorMemory
from upgrader.model.outcome import VerdictKind

EARLIER = "2020-05-05T05:05:05.000000Z"
"""By an aggregator's clock, which is wrong by years."""


def cell(name: str = "core", available: int = 5, *, event: str = EARLIER) -> dict[str, Any]:
    """A cell's status."""
    counts = {"availableReplicas": available, "lastEventTime": event} if event else {"availableReplicas": available}
    return {"cellID": name, "aggregation": counts}


def protect(kube: FakeKube, *cells: dict[str, Any], minimum: int = 4, estimate: int | None = 5) -> None:
    """A protector with this status."""
    summary = {} if estimate is None else {"estimatedAvailableReplicas": estimate}
    found = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": minimum},
        "status": {"cells": list(cells), "summary": summary},
    }
    kube.put(POD_PROTECTORS, found)


def gate(kube: FakeKube, clock: FakeClock) -> ProtectorGate:
    """A new gate, as each wait has one."""
    return ProtectorGate(kube, clock, "shop", "web")


def test_enough_pods_that_are_counted(kube: FakeKube, clock: FakeClock) -> None:
    """Whatever the aggregator's clock says."""
    protect(kube, cell())
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason == "PodProtector shop/web: at least 5 pods are available, 4 are required"
    assert gate(kube, clock).name == "protector/shop/web"


def test_at_the_minimum_it_holds(kube: FakeKube, clock: FakeClock) -> None:
    """The minimum is what must be there."""
    protect(kube, cell(available=4), estimate=4)
    assert gate(kube, clock).check().kind is VerdictKind.HOLDS


def test_below_its_minimum(kube: FakeKube, clock: FakeClock) -> None:
    """What counts is what is there for certain: deletions that are allowed are taken off."""
    protect(kube, cell(available=3), cell("worker", 1), estimate=3)
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == (
        "PodProtector shop/web: at least 3 pods are available (3 in core, 1 in worker, minus 1 with an "
        "allowed deletion), 4 are required"
    )
    assert "kubectl -n shop get podprotector web -o yaml" in verdict.remedy


@pytest.mark.parametrize("cells", [(), (cell(event=""),), (cell(), cell("worker", event=""))])
def test_cell_that_was_never_counted(kube: FakeKube, clock: FakeClock, cells: tuple[dict[str, Any], ...]) -> None:
    """A number that nobody has counted isn't one."""
    protect(kube, *cells)
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.PENDING
    assert "no aggregator has counted" in verdict.reason


def test_status_without_a_summary(kube: FakeKube, clock: FakeClock) -> None:
    """A new protector, or one whose status was lost."""
    protect(kube, cell(), estimate=None)
    assert "no aggregator has counted its pods yet" in gate(kube, clock).check().reason


def test_cell_that_is_not_counted_any_more(kube: FakeKube, clock: FakeClock) -> None:
    """Its aggregator is away: seen by this machine's clock alone, over all gates of a run."""
    protect(kube, cell(), cell("worker"))
    memory = ProtectorMemory()
    for second in range(0, 120, 30):
        protect(kube, cell(), cell("worker", event=f"2020-05-05T05:05:{second % 60}.5Z"))
        assert ProtectorGate(kube, clock, "shop", "web", memory).check().kind is VerdictKind.HOLDS
        clock.sleep(30)
    verdict = ProtectorGate(kube, clock, "shop", "web", memory).check()
    assert verdict.kind is VerdictKind.PENDING
    assert (
        verdict.reason
        == f"PodProtector shop/web: no aggregator has counted cell core for 120 s (lastEventTime {EARLIER})"
    )
    protect(kube, cell(event="2020-05-05T05:09:00.000000Z"), cell("worker"))
    assert ProtectorGate(kube, clock, "shop", "web", memory).check().kind is VerdictKind.HOLDS


def test_protector_that_is_not_there(kube: FakeKube, clock: FakeClock) -> None:
    """Its kind is known, and it isn't there: it may be made yet."""
    kube.raw_answers["/apis/podseidon.kubewharf.io/v1alpha1"] = "{}"
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == "PodProtector shop/web does not exist"


def test_kind_that_is_not_known(kube: FakeKube, clock: FakeClock) -> None:
    """Without the CustomResourceDefinition it is unknown, and the verdict says so."""
    error = ApiError("not found")
    error.status = 404
    kube.raw_answers["/apis/podseidon.kubewharf.io/v1alpha1"] = error
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.UNKNOWN
    assert "is not installed" in verdict.reason
    assert "Install guard's chart" in verdict.remedy


@pytest.mark.parametrize("path", ["get", "raw"])
def test_no_answer_is_unknown(kube: FakeKube, clock: FakeClock, path: str) -> None:
    """An API that is away, or refuses, says nothing against the protector."""
    error = ApiError("forbidden")
    error.status = 403
    kube.raw_answers["/apis/podseidon.kubewharf.io/v1alpha1"] = error
    kube.unavailable = path == "get"
    assert gate(kube, clock).check().kind is VerdictKind.UNKNOWN
