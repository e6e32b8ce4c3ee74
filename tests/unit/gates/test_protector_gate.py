"""When what a PodProtector protects is there, and counted."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.gates.protector_gate import ProtectorGate
from upgrader.model.outcome import VerdictKind

EARLIER = "2020-05-05T05:05:05.000000Z"
"""An event of long ago, by a clock of its own: a quiet cell's last one."""


def cell(name: str = "core", available: int = 5, *, event: str = EARLIER, pods: tuple[str, ...] = ()) -> dict[str, Any]:
    """A cell's status; `pods`: the deletions that it has allowed and not counted."""
    counts = {"availableReplicas": available, "lastEventTime": event} if event else {"availableReplicas": available}
    buckets = [{"podUID": f"{pod}-uid", "podName": pod, "startTime": "2031-01-01T00:00:00.000000Z"} for pod in pods]
    return {"cellID": name, "aggregation": counts, "admissionHistory": {"buckets": buckets}}


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
    """Whenever the last event was: where nothing happens, nothing is counted anew."""
    protect(kube, cell())
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason == "PodProtector shop/web: 5 pods are available for certain, 4 must be"
    assert gate(kube, clock).name == "protector/shop/web"


def test_at_the_minimum_it_holds(kube: FakeKube, clock: FakeClock) -> None:
    """The minimum is what must be there."""
    protect(kube, cell(available=4), estimate=4)
    assert gate(kube, clock).check().kind is VerdictKind.HOLDS


def test_below_its_minimum(kube: FakeKube, clock: FakeClock) -> None:
    """What counts is what is there for certain: deletions that are allowed are taken off."""
    protect(kube, cell(available=3), cell("worker", 1, pods=("web-1",)), estimate=3)
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == (
        "PodProtector shop/web: 3 pods are available for certain (3 in core, 1 in worker, less 1 whose deletion is "
        "allowed), 4 must be"
    )
    assert "kubectl -n shop get podprotector web -o yaml" in verdict.remedy


@pytest.mark.parametrize("cells", [(), (cell(event=""),), (cell(), cell("worker", event=""))])
def test_cell_that_was_never_counted(kube: FakeKube, clock: FakeClock, cells: tuple[dict[str, Any], ...]) -> None:
    """A number that nobody has counted isn't one."""
    protect(kube, *cells)
    verdict = gate(kube, clock).check()
    assert verdict.kind is VerdictKind.PENDING
    assert "nobody has counted" in verdict.reason


def test_status_without_a_summary(kube: FakeKube, clock: FakeClock) -> None:
    """A new protector, or one whose status was lost."""
    protect(kube, cell(), estimate=None)
    assert "nobody has counted its pods yet" in gate(kube, clock).check().reason


def test_deletion_that_stays_uncounted_for_a_minute(kube: FakeKube, clock: FakeClock) -> None:
    """The aggregator is away: seen by this machine's clock alone, whatever the times in the status are."""
    protect(kube, cell(pods=("web-1",)))
    asked = gate(kube, clock)
    for _ in range(3):
        assert asked.check().kind is VerdictKind.HOLDS
        clock.sleep(25)
    verdict = asked.check()
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == (
        "PodProtector shop/web: cell core has not counted the deletions of web-1 that it has allowed for 75 s"
    )


def test_cell_that_goes_on_counting(kube: FakeKube, clock: FakeClock) -> None:
    """Another event or another deletion begins the minute anew: its aggregator lives."""
    asked = gate(kube, clock)
    for second in range(6):
        protect(kube, cell(event=f"2020-05-05T05:05:0{second}.000000Z", pods=("web-1",)))
        assert asked.check().kind is VerdictKind.HOLDS
        clock.sleep(60)
    protect(kube, cell(pods=("web-2",)))
    assert asked.check().kind is VerdictKind.HOLDS


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
    assert "knows no PodProtectors" in verdict.reason
    assert "Install guard's chart" in verdict.remedy


@pytest.mark.parametrize("path", ["get", "raw"])
def test_no_answer_is_unknown(kube: FakeKube, clock: FakeClock, path: str) -> None:
    """An API that is away, or refuses, says nothing against the protector."""
    error = ApiError("forbidden")
    error.status = 403
    kube.raw_answers["/apis/podseidon.kubewharf.io/v1alpha1"] = error
    kube.unavailable = path == "get"
    assert gate(kube, clock).check().kind is VerdictKind.UNKNOWN


def test_time_that_cannot_be_read(kube: FakeKube, clock: FakeClock) -> None:
    """What others wrote into a status ends no check."""
    found = cell(pods=("web-1",))
    found["admissionHistory"]["buckets"] = [{"startTime": "yesterday", "counter": 3}]
    protect(kube, found)
    assert gate(kube, clock).check().kind is VerdictKind.HOLDS
