"""Prepare-downscale: the answers of the table, and the original's faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import (
    OLD,
    changed,
    member,
    members,
    request_of,
    review_of,
    scale,
    without,
    workload,
    zone,
)
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer
from upgrader.in_cluster.guard.core.prepare import (
    PATH,
    PORT,
    PREPARE,
    GroupState,
    Preparation,
    concluded,
    decide,
    shrinks,
)
from upgrader.in_cluster.guard.core.rollout import Hold
from upgrader.in_cluster.guard.core.scaling import MIN_TIME
from upgrader.in_cluster.guard.core.workloads import StatefulSet

A, B = "web-zone-a", "web-zone-b"
NOW, HOUR = 1_000_000.0, 3600.0
DOMAIN = "cluster.local."


def _set(**changes: Any) -> StatefulSet:
    annotations = {PATH: "/ingester/prepare", PORT: "80", **changes.pop("annotations", {})}
    labels = {PREPARE: "true", MIN_TIME: "12h", **changes.pop("labels", {})}
    return zone(A, 3, service_name="web-headless", labels=labels, annotations=annotations, **changes)


def _state(*sets: StatefulSet, **changes: Any) -> GroupState:
    pods = changes.pop("pods", (*members(A), *members(B)))
    found = {"last_downscales": {}, "ever_ran": 3, **changes}
    return GroupState(sets or (_set(), zone(B)), tuple(pods), **found)


def _request(before: int = 3, after: int = 1, **changes: Any) -> AdmissionRequest:
    return request_of(review_of(name=A, oldObject=workload(before), object=workload(after), **changes))


def _decide(
    request: AdmissionRequest | None = None, which: StatefulSet | None = None, **state: Any
) -> Answer | Preparation:
    which = which or _set()
    return decide(request or _request(), which, _state(which, *state.pop("others", (zone(B),)), **state), DOMAIN, NOW)


def _refused(decision: Answer | Preparation) -> str:
    assert isinstance(decision, Answer)
    assert (decision.allowed, decision.code) == (False, 403)
    start = f"downscale of statefulsets/{A} in ns from 3 to 1 replicas is not allowed because "
    assert decision.message.startswith(start)
    return decision.message.removeprefix(start)


def test_the_pods_that_go_are_prepared() -> None:
    """Each by its name in DNS, of the set's own headless Service: the original once took the set's name for it."""
    decision = _decide()
    assert isinstance(decision, Preparation)
    assert [str(e) for e in decision.endpoints] == [
        f"http://{A}-{n}.web-headless.ns.svc.cluster.local.:80/ingester/prepare" for n in (1, 2)
    ]


def test_all_prepared_is_allowed_and_one_that_is_not_refuses() -> None:
    """One POST that isn't 2xx: denied, by its name."""
    decision = _decide()
    assert isinstance(decision, Preparation)
    assert concluded(decision, {}).allowed
    failed = concluded(decision, {f"{A}-2": "HTTP 500"})
    assert _refused(failed) == f"{A}-2 could not be prepared for shutdown: HTTP 500"
    both = concluded(decision, {f"{A}-2": "HTTP 500", f"{A}-1": "timeout"})
    assert _refused(both) == f"{A}-1 and 1 more could not be prepared for shutdown: timeout"


def test_a_made_up_number_of_replicas_takes_no_more_pods_than_there_are() -> None:
    """Whoever reaches the port may send it, with two thousand million of them."""
    decision = _decide(_request(before=2**31 - 1))
    assert isinstance(decision, Preparation)
    assert [e.ordinal for e in decision.endpoints] == [1, 2]


def test_a_dry_run_calls_nobody() -> None:
    """Allowed where it would be, and refused where it would be."""
    dry = _request(dryRun=True)
    allowed = _decide(dry)
    assert isinstance(allowed, Answer) and allowed.allowed
    assert "locked" in _refused(_decide(dry, locked_by="a rollout"))


def _moved(before: tuple[int, int], after: tuple[int, int], **changes: Any) -> AdmissionRequest:
    old, new = (workload(number, ordinals={"start": start}) for start, number in (before, after))
    return request_of(review_of(name=A, oldObject=old, object=new, **changes))


@pytest.mark.parametrize("after", [(1, 3), (1, 2), (1, 9)])
def test_pods_that_another_first_ordinal_takes_away_are_named(after: tuple[int, int]) -> None:
    """With fewer replicas, as many or more, the first pod goes, and the last one isn't prepared for it. Of a set that
    isn't prepared they may go.
    """
    request = _moved((0, 3), after)
    assert shrinks(request) == (3, after[1])
    answer = _decide(request)
    assert isinstance(answer, Answer)
    assert (answer.allowed, answer.code) == (False, 403)
    assert answer.message == (
        f"change of spec.ordinals.start of statefulsets/{A} in ns from 0 to 1 is not allowed because it removes {A}-0, "
        "and guard prepares only the last pods of a set for shutdown: change its replicas instead, or remove "
        f"{PREPARE} first"
    )
    plain = _decide(request, zone(A))
    assert isinstance(plain, Answer) and plain.allowed
    held = _decide(request, zone(A), hold=Hold("run-7"))
    assert isinstance(held, Answer) and "from 0 to 1 is not allowed while the upgrade run-7 holds" in held.message


def test_a_lower_first_ordinal_with_more_replicas_takes_no_pod_away() -> None:
    """Nobody is asked."""
    answer = shrinks(_moved((3, 2), (0, 5)))
    assert isinstance(answer, Answer) and answer.allowed


def test_the_last_pods_go_wherever_ordinals_begin() -> None:
    """Those above what stays are prepared, if they ever ran."""
    moved = replace(_set(), first_ordinal=5)
    pods = [replace(member(f"{A}-{n}"), owner_uid=moved.uid) for n in (5, 6, 7)]
    decision = _decide(which=moved, pods=(*pods, *members(B)), ever_ran=7)
    assert isinstance(decision, Preparation)
    assert [each.ordinal for each in decision.endpoints] == [6, 7]
    none = _decide(which=moved, pods=(*pods[:1], *members(B)), ever_ran=6)
    assert isinstance(none, Answer) and none.allowed
    assert f"{A}-6 isn't running" in _refused(_decide(which=moved, pods=(*pods[:1], *members(B)), ever_ran=7))


@pytest.mark.parametrize(
    ("which", "why"),
    [
        (_set(annotations={PORT: ""}), f"its annotation {PORT} is not set or empty"),
        (_set(annotations={PATH: ""}), f"its annotation {PATH} is not set or empty"),
        (replace(_set(), service_name=""), "its serviceName is not set or empty"),
        (_set(annotations={PORT: "http"}), f"its annotation {PORT} is 'http', not a port"),
        (_set(annotations={PORT: "70000"}), f"its annotation {PORT} is '70000', not a port"),
        (_set(annotations={PORT: "9" * 5000}), f"its annotation {PORT} is '{'9' * 64}', not a port"),
    ],
)
def test_what_is_missing_is_named(which: StatefulSet, why: str) -> None:
    """Port, path or serviceName."""
    assert _refused(_decide(which=which)) == why


def test_another_set_that_was_downscaled_too_recently_refuses() -> None:
    """By the Lease's time, not by the annotation; its own last downscale doesn't count."""
    assert _refused(_decide(last_downscales={B: NOW - HOUR})).startswith(f"{B} was downscaled at 1970-01-12T12:46:40Z")
    assert isinstance(_decide(last_downscales={B: NOW - 12 * HOUR}), Preparation)
    assert isinstance(_decide(last_downscales={A: NOW - 1}), Preparation)
    shown = zone(B, annotations={"grafana.com/last-downscale": "1970-01-12T13:46:40Z"})
    assert isinstance(_decide(others=(shown,)), Preparation)


def test_the_longer_of_two_times_counts() -> None:
    """The other zone's, or its own."""
    longer = zone(B, annotations={MIN_TIME: "24h"})
    assert "86400 s" in _refused(_decide(others=(longer,), last_downscales={B: NOW - 13 * HOUR}))
    wrong = zone(B, labels={MIN_TIME: "soon"})
    assert "not a duration" in _refused(_decide(others=(wrong,)))


def test_another_set_that_is_not_updated_or_not_ready_refuses() -> None:
    """With how many of its pods."""
    stale = (*members(A), *members(B, OLD))
    assert _refused(_decide(pods=stale)) == f"{B} has 3 outdated pods"
    unseen = zone(B, generation=2, observed_generation=1)
    assert "outdated" in _refused(_decide(others=(unseen,)))
    unready = (*members(A), *changed(members(B), f"{B}-1", ready_since=None))
    assert _refused(_decide(pods=unready)) == f"{B} has 1 pods that aren't ready"


def test_another_set_whose_pods_go_yet_refuses() -> None:
    """Between two of its pods the controller leaves a moment in which all that are there are ready."""
    going = zone(B, 1, status_replicas=2, ready_replicas=2)
    pods = (*members(A), *members(B, count=2))
    assert _refused(_decide(others=(going,), pods=pods)) == f"{B} has 1 pods that are still being removed"


def test_a_locked_group_refuses() -> None:
    """A rollout or another zone's downscale is under way, which says who it is."""
    assert _refused(_decide(locked_by="a rollout of web-zone-b")) == "its group is locked: a rollout of web-zone-b"


def test_a_held_group_refuses_with_the_runs_name() -> None:
    """Nothing in a group shrinks while the control plane is replaced, also a set that needs no preparation."""
    plain = zone(A)
    for which in (_set(), plain):
        held = _decide(which=which, hold=Hold("run-7"))
        assert isinstance(held, Answer) and not held.allowed
        assert "from 3 to 1 replicas is not allowed while the upgrade run-7 holds the group web" in held.message
    named = Hold("run-7", frozenset({"ns/web"}))
    assert isinstance(_decide(hold=named), Preparation)
    by_scale = _decide(_request(subResource="scale"), hold=named)
    assert isinstance(by_scale, Answer) and not by_scale.allowed, "an autoscaler isn't the run's own release"


def test_a_set_without_a_group_is_only_prepared() -> None:
    """No other zone, no lock, no hold."""
    alone = replace(_set(), labels={PREPARE: "true"})
    assert isinstance(_decide(which=alone, hold=Hold("run-7"), locked_by="x"), Preparation)


@pytest.mark.parametrize(("labels", "annotations"), [({PREPARE: "true"}, {}), ({}, {PREPARE: "true"})])
def test_prepare_downscale_may_be_a_label_or_an_annotation(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Fault #306: as an annotation it is silently nothing."""
    marks = {PATH: "p", PORT: "80"}
    which = zone(A, service_name="web", labels=labels, annotations={**marks, **annotations})
    assert isinstance(_decide(which=which), Preparation)
    neither = _decide(which=zone(A, service_name="web", annotations=marks))
    assert isinstance(neither, Answer) and neither.allowed


def test_a_pod_that_never_ran_needs_no_preparation() -> None:
    """A scale-up that is taken back: 1 runs, 2 never did."""
    pods = (*changed(members(A), f"{A}-2", phase="Pending"), *members(B))
    decision = _decide(pods=pods, ever_ran=2)
    assert isinstance(decision, Preparation)
    assert [e.pod for e in decision.endpoints] == [f"{A}-1"]
    none = _decide(pods=(*without(members(A), f"{A}-1", f"{A}-2"), *members(B)), ever_ran=1)
    assert isinstance(none, Answer) and none.allowed


def test_a_pod_that_ran_once_and_does_not_now_cannot_be_prepared() -> None:
    """It may have data that somebody must take over first."""
    pods = (*without(members(A), f"{A}-2"), *members(B))
    assert _refused(_decide(pods=pods)) == f"{A}-2 isn't running, so it can't be prepared for shutdown"


def test_a_pod_that_terminates_cannot_be_prepared() -> None:
    """It runs yet, and answers; but its controller makes another one in its place until replicas are fewer, which was
    told nothing.
    """
    pods = (*changed(members(A), f"{A}-2", terminating=True), *members(B))
    for ran in (3, 2):
        assert _refused(_decide(pods=pods, ever_ran=ran)).startswith(f"{A}-2 is terminating, so it can't be prepared")


@pytest.mark.parametrize(
    ("request_", "warns"),
    [
        (_request(3, 3), False),
        (_request(3, 4), False),
        (request_of(review_of(oldObject=workload(None), object=workload(None))), False),
        (request_of(review_of(oldObject=workload(3), object=workload(None))), True),
        (request_of(review_of(oldObject=workload(3), object=workload("x"))), True),
    ],
)
def test_what_is_no_downscale_is_allowed(request_: AdmissionRequest, warns: bool) -> None:
    """Upscales and other changes; null and the undecodable with a warning."""
    answer = decide(request_, _set(), _state(locked_by="x"), DOMAIN, NOW)
    assert isinstance(answer, Answer) and answer.allowed and bool(answer.warnings) is warns


def test_a_scale_is_a_downscale_too() -> None:
    """To nothing as well, which Go writes as nothing."""
    kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    request = request_of(review_of(kind=kind, subResource="scale", oldObject=scale(3), object=scale(0)))
    assert shrinks(request) == (3, 0)
