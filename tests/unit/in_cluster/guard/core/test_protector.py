"""PodProtectors: upstream's webhook tests, faults, answers, and that no interleaving deletes a pod too many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import Json, member, request_of, review_of
from upgrader.in_cluster.guard.core.admission import NotAnAdmissionReview
from upgrader.in_cluster.guard.core.admission_history import Bucket
from upgrader.in_cluster.guard.core.aggregation import Seen, aggregate
from upgrader.in_cluster.guard.core.ledger import Judgement, admit
from upgrader.in_cluster.guard.core.protector import (
    FORCE_DELETE,
    HEALTH_CRITERION,
    Cell,
    Counts,
    Protector,
    ProtectorRequest,
    Tuning,
    judge,
    lost_already,
    misdirected,
    pod_of_delete,
    request_for,
)
from upgrader.in_cluster.guard.core.protector_object import read, status
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.core.workloads import Pod, pod

APP = Selector.of({"matchLabels": {"app": "web"}})
SAME = Selector.of(
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}, {"key": "app", "operator": "Exists"}]}
)
STEPS = ["read", "judge", "judge", "delete", "tell", "count", "count", "crash", "edit"]
FEW = "PodProtector ns/deployment-web reports too few available replicas to admit pod deletion"
FULL = "PodProtector ns/deployment-web has full admission buffer and is temporarily unable to admit pod deletion"
NOW = 1000.0


def _pod(name: str = "web-x-1", **changes: Any) -> Pod:
    return member(name, labels={"app": "web"}, **changes)


def _all(count: int) -> Counts:
    return Counts(count, count, count, count, count)


def _protector(least: int, *cells: Cell, **changes: Any) -> Protector:
    return Protector("ns", "deployment-web", least, APP, APP, cells=cells, **changes)


def _ask(name: str = "web-x-1", cell: str = "a", request: str = "", **changes: Any) -> ProtectorRequest:
    return ProtectorRequest(request or f"r-{name}", changes.pop("pod", _pod(name)), cell=cell, **changes)


def _admit(protector: Protector, *requests: ProtectorRequest, now: float = NOW) -> tuple[list[int], Protector]:
    judged, after = admit(protector, requests, now, judge)
    return [j.answer.code for j in judged], after


def _judge(request: ProtectorRequest, protector: Protector) -> Judgement:
    return judge(request, protector)


def test_one_of_each_cell_goes_and_no_third() -> None:
    """ "allows normal … and rejects extra": 3 + 4 pods, minimum 5."""
    protector = _protector(5, Cell("a", _all(3)), Cell("b", _all(4)))
    codes, after = _admit(protector, _ask("a-1", "a"))
    assert codes == [0]
    codes, after = _admit(after, _ask("b-1", "b"))
    assert codes == [0]
    assert [len(c.buckets) for c in after.cells] == [1, 1]
    assert (after.counts.available, after.lag, after.estimate) == (7, 2, 5)
    assert _admit(after, _ask("a-2", "a")) == ([409], after)


def test_bulk_deletions_are_rejected() -> None:
    """DeleteCollection asks about each pod: as many go as may, in one write."""
    codes, after = _admit(_protector(2, Cell("a", _all(5))), *(_ask(f"p-{n}") for n in range(5)))
    assert codes == [0, 0, 0, 409, 409]
    assert after.estimate == 2


def test_a_second_deletion_waits_for_the_first_to_be_seen() -> None:
    """ "… MaxConcurrentLag": with 1, the second is refused until the aggregator has seen the first."""
    protector = _protector(1, Cell("a", _all(9)), tuning=Tuning(max_concurrent_lag=1))
    codes, after = _admit(protector, _ask("p-1"), _ask("p-2"))
    assert codes == [0, 409]
    assert _admit(after.with_cell(Cell("a", _all(8))), _ask("p-2"))[0] == [0]


def test_where_nothing_has_to_stay_nobody_has_to_count() -> None:
    """minAvailable 0, as a Deployment with the strategy Recreate has it: it is written down all the same."""
    codes, after = _admit(_protector(0), _ask("p-1"), _ask("p-2"))
    assert (codes, after.lag) == ([0, 0], 2)
    assert _admit(_protector(0, tuning=Tuning(max_concurrent_lag=1)), _ask("p-1"), _ask("p-2"))[0] == [0, 409]


def test_an_unready_pod_goes() -> None:
    """ "… unready": at the minimum, and without being written down."""
    protector = _protector(3, Cell("a", _all(3)))
    judgement = _judge(_ask(pod=_pod(ready_since=None)), protector)
    assert (judgement.answer.allowed, judgement.reserves, judgement.why) == (True, False, "AlreadyUnready")


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("eviction", [False, True])
def test_a_pod_that_has_ended_goes_although_it_still_says_ready(phase: str, eviction: bool) -> None:
    """The garbage collector of pods writes only the phase: the pod isn't counted, and nothing is written down."""
    protector = _protector(3, Cell("a", _all(3)))
    judgement = _judge(_ask(pod=_pod(phase=phase), eviction=eviction), protector)
    assert (judgement.answer.allowed, judgement.reserves, judgement.why) == (True, False, "AlreadyUnready")


def test_an_unready_pod_is_evicted_and_written_down() -> None:
    """The API server asks before it reads the pod, which may be Ready, and counted, by the time it goes."""
    unready = _ask("p-0", pod=_pod("p-0", ready_since=None), eviction=True)
    codes, after = _admit(_protector(3, Cell("a", Counts(4, 3, 3, 4, 4))), unready)
    assert (codes, after.lag) == ([0], 1)
    now_ready = after.with_cell(replace(after.cell("a"), counts=_all(4)))
    assert _admit(now_ready, _ask("p-1"))[0] == [409]


def test_a_pod_that_is_ready_but_not_available_goes() -> None:
    """ "… unavailable": minReadySeconds 600, and its aggregator says that it isn't counted. It is written down, as it
    may be counted before it is seen to go.
    """
    cell = Cell("a", Counts(4, 3, 4, 4, 4), young=frozenset({"young"}))
    protector = _protector(3, cell, Cell("b", young=frozenset({"old"})), min_ready_seconds=600)
    judgement = _judge(_ask(pod=_pod("young")), protector)
    assert (judgement.answer.allowed, judgement.reserves, judgement.why) == (True, True, "AlreadyUnhealthy")
    assert _judge(_ask(pod=_pod("old")), protector).answer.code == 429, "another cell's"


@pytest.mark.parametrize("since", [0.0, NOW, 1e9, float("inf")])
def test_no_clock_unprotects_a_pod(since: float) -> None:
    """All that are Ready are counted as available: whatever the kubelet's clock wrote, 10 of 15 go, and no more."""
    protector = _protector(5, Cell("a", _all(15)), min_ready_seconds=60)
    asked = [_ask(f"p-{n}", pod=_pod(f"p-{n}", ready_since=since)) for n in range(15)]
    assert _admit(protector, *asked)[0] == [0] * 10 + [409] * 5


def test_a_young_pod_that_is_counted_before_it_is_seen_to_go_lets_no_other_one_go() -> None:
    """Its place was reserved."""
    cell = Cell("a", Counts(4, 3, 4, 4, 4), young=frozenset({"young"}))
    protector = _protector(3, cell, min_ready_seconds=600)
    codes, after = _admit(protector, _ask(pod=_pod("young")))
    assert codes == [0]
    counted = after.with_cell(replace(after.cell("a"), counts=_all(4), young=frozenset()))
    assert _admit(counted, _ask("p-1"))[0] == [409]


def test_a_pod_goes_when_enough_others_run() -> None:
    """ "… when peer is running": by the criterion Running, four run although only three are available."""
    protector = _protector(3, Cell("a", Counts(4, 3, 3, 4, 4)))
    assert _judge(_ask(), protector).answer.code == 429
    assert _judge(_ask(criterion="Running"), protector).reserves
    assert _judge(_ask(criterion="Scheduled"), protector).reserves
    assert _judge(_ask(criterion="Ready"), protector).answer.code == 429
    assert _judge(_ask(criterion="Whatever"), protector).answer.code == 429


@pytest.mark.parametrize("eviction", [False, True])
def test_at_the_minimum_it_is_429(eviction: bool) -> None:
    """Too few: the answer of the table, and who refused, for the audit log."""
    answer = _judge(_ask(eviction=eviction), _protector(3, Cell("a", _all(3)))).answer
    assert (answer.code, answer.reason, answer.message) == (429, "TooManyRequests", FEW)
    assert answer.audit == {"reject-by-podprotector": "ns/deployment-web"}


@pytest.mark.parametrize(("eviction", "code"), [(False, 409), (True, 429)])
@pytest.mark.parametrize("most", [0, 1])
def test_what_is_reserved_but_not_seen_is_409_and_429_for_evictions(eviction: bool, code: int, most: int) -> None:
    """`kubectl drain` tries 429 again, and gives up on podseidon's 409."""
    cell = Cell("a", _all(4), buckets=(Bucket(1.0, "other"),))
    protector = _protector(3, cell, tuning=Tuning(max_concurrent_lag=most))
    answer = _judge(_ask(eviction=eviction), protector).answer
    assert (answer.code, answer.message) == (code, FULL)


@pytest.mark.parametrize("least", [0, 9])
def test_what_is_for_the_audit_log_has_keys_that_it_takes(least: int) -> None:
    """kube-apiserver makes WEBHOOK/KEY of each, and drops what has another slash."""
    protector = _protector(least, Cell("a", _all(3)))
    forced = _ask(pod=_pod(annotations={FORCE_DELETE: "NodeIsBroken"}))
    asked = [_ask(), forced]
    keys = {key for each in asked for key in _judge(each, protector).answer.audit}
    assert "force-delete" in keys and not any("/" in key for key in keys)


def test_a_terminating_pod_goes() -> None:
    """It has been allowed already."""
    judgement = _judge(_ask(pod=_pod(terminating=True)), _protector(3, Cell("a", _all(3))))
    assert judgement.answer.allowed and not judgement.reserves


def test_an_unmatched_pod_goes() -> None:
    """Also when its protector has gone from the cache meanwhile: no protector, no refusal, no crash."""
    judgement = _judge(_ask(pod=member("db-0")), _protector(3, Cell("a", _all(3))))
    assert judgement.answer.allowed and not judgement.reserves


def test_a_pod_that_only_counts_goes_and_is_counted_as_gone() -> None:
    """A wider aggregationSelector counts it: a protected pod may not go in its place before it is seen to be gone."""
    wider = replace(_protector(3, Cell("a", _all(4))), aggregation=Selector.of({}))
    canary = _ask("canary", pod=member("canary", labels={"app": "canary"}))
    codes, after = _admit(wider, canary, _ask("p-1"))
    assert codes == [0, 409] and after.estimate == 3
    assert _admit(replace(wider, min_available=4), canary)[0] == [0]


def test_a_pod_with_force_delete_goes_and_is_counted_as_gone() -> None:
    """At the minimum too; the next deletion knows of it."""
    forced = _ask("p-1", pod=replace(_pod("p-1"), annotations={FORCE_DELETE: "NodeIsBroken"}))
    codes, after = _admit(_protector(3, Cell("a", _all(4))), forced, _ask("p-2"))
    assert codes == [0, 409]
    assert _admit(_protector(3, Cell("a", _all(3))), forced)[0] == [0]
    assert _judge(forced, after).answer.audit == {"force-delete": "NodeIsBroken"}


def test_a_dry_run_takes_no_quota() -> None:
    """Podseidon writes it down, although it says that it has no side effects then."""
    protector = _protector(3, Cell("a", _all(4)))
    codes, after = _admit(protector, _ask("p-1", dry_run=True), _ask("p-2", dry_run=True))
    assert codes == [0, 0] and after is protector
    _, full = _admit(protector, _ask("p-1"))
    assert _admit(full, _ask("p-2", dry_run=True)) == ([409], full)


def test_a_pod_that_is_asked_about_again_takes_one_place() -> None:
    """A second try for the same pod isn't refused by the first."""
    _, once = _admit(_protector(3, Cell("a", _all(4))), _ask("p-1", request="r1"))
    codes, twice = _admit(once, _ask("p-1", request="r2"))
    assert codes == [0] and twice.lag == 1
    assert twice.give_back({"r1": "p-1"}).lag == 1
    assert twice.give_back({"r1": "p-1", "r2": "p-1"}).lag == 0


def test_a_forgotten_cell_takes_its_pods_along() -> None:
    """`forget-cell`: what it counted doesn't hide that it is gone."""
    protector = _protector(3, Cell("a", _all(3)), Cell("b", _all(4)))
    assert protector.without_cells({"b"}).counts.available == 3
    assert _admit(protector.without_cells({"b"}), _ask())[0] == [429]


def test_many_deletions_are_put_together_and_still_count() -> None:
    """Quota 7, names for 2: not an eighth."""
    protector = _protector(3, Cell("a", _all(10)), tuning=Tuning(compact_threshold=2))
    codes, after = _admit(protector, *(_ask(f"p-{n}") for n in range(9)))
    assert codes == [0] * 7 + [409] * 2
    assert [b.count for b in after.cell("a").buckets] == [5, 1, 1]


def test_a_pod_that_is_asked_for_again_takes_no_second_place_whatever_was_put_together() -> None:
    """A quota of 7, and each pod asked for twice, as by two controllers: 7 places, not 3."""
    protector = _protector(3, Cell("a", _all(10)), tuning=Tuning(compact_threshold=2))
    for number in range(7):
        for request in (f"r-{number}", f"again-{number}"):
            codes, protector = _admit(protector, _ask(f"p-{number}", request=request))
            assert codes == [0]
    assert protector.lag == 7
    codes, protector = _admit(protector, *(_ask(f"p-{n}", request=f"third-{n}") for n in range(7)))
    assert (codes, protector.lag) == ([0] * 7, 7)


ITEM: Json = {
    "metadata": {"name": "deployment-web", "namespace": "ns"},
    "spec": {
        "minAvailable": 3,
        "minReadySeconds": 5,
        "selector": {"matchLabels": {"app": "web"}},
        "admissionHistoryConfig": {"maxConcurrentLag": 2, "aggregationRateMillis": 500},
    },
    "status": {
        "cells": [
            {
                "cellID": "a",
                "aggregation": {
                    "totalReplicas": 5,
                    "availableReplicas": 4,
                    "readyReplicas": 4,
                    "scheduledReplicas": 5,
                    "runningReplicas": 5,
                    "lastEventTime": "1970-01-01T00:00:05.000000Z",
                },
                "admissionHistory": {"buckets": [{"startTime": "1970-01-01T00:00:06.500000Z", "podUID": "u"}]},
            }
        ],
        "conditions": [{"type": "Protects"}],
    },
}


def test_a_protector_is_read_and_its_status_written() -> None:
    """What it adds up to is new, with the estimate where podseidon shows the count; what others wrote stays."""
    protector = read(ITEM, Tuning())
    assert protector.tuning == Tuning(2, 100, 0.5)
    assert (protector.min_available, protector.min_ready_seconds, protector.aggregation) == (3, 5, APP)
    written = status(protector, ITEM["status"])
    assert written["cells"] == ITEM["status"]["cells"]
    assert written["conditions"] == [{"type": "Protects"}]
    assert written["summary"] == {
        "totalReplicas": 5,
        "aggregatedAvailableReplicas": 4,
        "estimatedAvailableReplicas": 3,
        "maxLatencyMillis": 1500,
        "aggregatedReady": 4,
        "aggregatedScheduled": 5,
        "aggregatedRunning": 5,
    }


@pytest.mark.parametrize("criterion", ["Running", "Scheduled"])
def test_a_pod_that_is_not_ready_is_recorded_where_it_counts(criterion: str) -> None:
    """Seven run, of which five are Ready, and five must: after the two others, no Ready one may go before they are seen
    to be gone. By other criteria they don't count, and nothing is written.
    """
    notes = {HEALTH_CRITERION: criterion}
    unready = [_pod(f"web-u-{n}", ready_since=None, annotations=notes) for n in range(2)]
    protector = _protector(5, Cell("a", Counts(7, 5, 5, 7, 7), 0.0))
    asked = [_ask(each.name, pod=each) for each in unready]
    asked.append(_ask("web-x-1", pod=_pod(annotations=notes), criterion=criterion))
    assert _admit(protector, *asked)[0] == [0, 0, 409]
    assert lost_already(unready[0], eviction=False) is None
    for other in ({}, {HEALTH_CRITERION: "Ready"}, {HEALTH_CRITERION: "Available"}):
        assert lost_already(replace(unready[0], annotations=other), eviction=False) is not None


def test_pods_that_another_selector_has_counted_let_none_go() -> None:
    """A PodProtector got another selector: those ten pods aren't the ones that it protects now, of which none is known
    until an aggregator has counted them. Deletions that were allowed before are still subtracted.
    """
    old = Selector.of({"matchLabels": {"app": "old"}})
    buckets = (Bucket(900.0, "web-x-9"),)
    edited = _protector(1, Cell("a", _all(10), 0.0, buckets, counted_by=old.digest), Cell("b", _all(2), counted_by=""))
    assert (edited.counts, edited.estimate) == (_all(2), 1)
    assert _admit(edited, _ask())[0] == [409]
    counted = edited.with_cell(Cell("a", _all(3), 0.0, buckets, counted_by=APP.digest))
    assert (counted.counts, _admit(counted, _ask())[0]) == (_all(5), [0])
    assert read({**ITEM, "status": status(counted)}, Tuning()).cells == counted.cells


def test_a_new_protector_has_no_cells() -> None:
    """Nothing counted yet: nothing may go. The wider selector counts where there is one."""
    item = {**ITEM, "spec": {**ITEM["spec"], "aggregationSelector": {}, "admissionHistoryConfig": None}, "status": None}
    protector = read(item, Tuning(7, 8, 9.0))
    assert (protector.tuning, protector.aggregation, protector.counts) == (Tuning(7, 8, 9.0), Selector(), Counts())
    assert _admit(protector, _ask())[0] == [429]
    assert status(protector)["summary"]["maxLatencyMillis"] == 0
    never_seen = protector.with_cell(Cell("a", buckets=(Bucket(1.0, "u"),)))
    assert "lastEventTime" not in status(never_seen)["cells"][0]["aggregation"]


PODS = {"group": "", "version": "v1", "resource": "pods"}


def _delete(**changes: Any) -> Json:
    pod = {"metadata": {"name": "web-1", "namespace": "ns", "uid": "u"}}
    return review_of("DELETE", **{"resource": PODS, "name": "web-1", "object": None, "oldObject": pod, **changes})


def _eviction(**metadata: Any) -> Json:
    body = {"kind": "Eviction", "metadata": {"name": "web-1", **metadata}}
    return review_of("CREATE", resource=PODS, subResource="eviction", name="web-1", object=body, oldObject=None)


def test_a_deletion_and_an_eviction_are_understood() -> None:
    """An eviction doesn't call webhooks for DELETE, so that both come here."""
    deletion, eviction = request_of(_delete()), request_of(_eviction())
    assert misdirected(deletion) is None and misdirected(eviction) is None
    subject = pod_of_delete(deletion)
    assert (subject.name, subject.uid) == ("web-1", "u")
    asked = request_for(deletion, subject, "a")
    assert (asked.id, asked.eviction, asked.cell, asked.criterion, asked.dry_run) == (
        deletion.uid,
        False,
        "a",
        "Available",
        False,
    )
    assert request_for(eviction, subject, "a").eviction


@pytest.mark.parametrize(
    ("api_version", "kind", "returns"),
    [
        ("apps/v1", "ReplicaSet", False),
        ("v1", "ReplicationController", False),
        ("apps/v1", "DaemonSet", False),
        ("batch/v1", "Job", False),
        ("apps/v1", "StatefulSet", True),
        ("example.com/v1", "Shard", True),
        ("batch.volcano.sh/v1alpha1", "Job", True),
        ("", "", True),
    ],
)
def test_an_eviction_is_recorded_as_one_where_another_pod_may_get_the_name(
    api_version: str, kind: str, returns: bool
) -> None:
    """A StatefulSet's next pod has it, as an operator's may, and one that nothing owns: it may be what an eviction
    deletes that hangs. Others get a name of their own each time, even one that ends with digits alone. A Job of another
    group isn't Kubernetes' Job: Volcano's names its pods by their number.
    """
    owner = {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "o", "controller": True}
    subject = pod({"metadata": {"name": "web-54x9-29584", "uid": "u", "ownerReferences": [owner] if kind else []}})
    request = request_of(_eviction())
    assert request_for(request, subject, "a").id == f"{'eviction-' if returns else ''}{request.uid}"
    assert request_for(request_of(_delete()), subject, "a").id == request.uid


def test_a_collections_pods_are_understood_one_by_one() -> None:
    """The API server asks about each of them, without the name that its request for all of them doesn't have."""
    request = request_of(_delete(name=""))
    assert misdirected(request) is None and pod_of_delete(request).name == "web-1"


def test_an_evictions_own_criterion_counts_first() -> None:
    """Then the pod's; and a deletion's options have none."""
    subject = replace(_pod(), annotations={HEALTH_CRITERION: "Ready"})
    by_eviction = request_of(_eviction(annotations={HEALTH_CRITERION: "Running"}))
    assert request_for(by_eviction, subject, "a").criterion == "Running"
    for other in (_eviction(), _eviction(annotations={HEALTH_CRITERION: 7}), _eviction(annotations=[]), _delete()):
        assert request_for(request_of(other), subject, "a").criterion == "Ready"


@pytest.mark.parametrize(
    "document",
    [
        _delete(subResource="status"),
        _delete(resource={**PODS, "group": "apps"}),
        _delete(resource={**PODS, "resource": "nodes"}),
        {**_eviction(), "request": {**_eviction()["request"], "name": ""}},
        {**_delete(), "request": {**_delete()["request"], "operation": "UPDATE"}},
        {**_eviction(), "request": {**_eviction()["request"], "subResource": "binding"}},
    ],
)
def test_what_is_neither_is_refused(document: Json) -> None:
    """400."""
    answer = misdirected(request_of(document))
    assert answer is not None and answer.code == 400


@pytest.mark.parametrize("name", [".", "..", "", "a/b", "a\nb", ["web-1"]])
def test_a_collections_pod_has_a_name(name: object) -> None:
    """Its request has none: what its pod is called is what is asked for, and `.` would be the list of all pods."""
    with pytest.raises(NotAnAdmissionReview):
        pod_of_delete(
            request_of(_delete(name="", oldObject={"metadata": {"name": name, "namespace": "ns", "uid": "u"}}))
        )


@pytest.mark.parametrize(
    "old",
    [
        None,
        {},
        {"metadata": "x"},
        {"metadata": {"name": "web-1"}},
        {"metadata": {"name": "web-1", "namespace": "ns", "uid": "u"}, "status": {"conditions": "x"}},
        {"metadata": {"name": "web-1", "namespace": "ns", "uid": "u"}, "status": 7},
        {"metadata": {"name": "web-1", "namespace": "ns", "uid": 7}},
        {"metadata": {"name": "web-1", "namespace": "ns", "uid": "u", "labels": ["app"]}},
        {"metadata": {"name": "web-1", "namespace": "ns", "uid": "u", "labels": {"app": ["web"]}}},
        {"metadata": {"name": "web-1", "namespace": "ns", "uid": "u", "annotations": {"a": 7}}},
        {"metadata": {"name": "web-2", "namespace": "ns", "uid": "u"}},
        {"metadata": {"name": "web-1", "namespace": "other", "uid": "u"}},
    ],
)
def test_what_is_no_pod_is_refused(old: object) -> None:
    """Of the wrong shape, or another one than the request names."""
    with pytest.raises(NotAnAdmissionReview):
        pod_of_delete(request_of(_delete(oldObject=old)))


@dataclass
class _World:
    """Two cells' pods as they are; each cell's aggregator and two webhooks see what they have been told."""

    alive: dict[str, set[str]]
    stored: Protector
    version: int = 0
    allowed: set[str] = field(default_factory=set)  # may be deleted at any time
    deleted: list[str] = field(default_factory=list)  # in this order
    told: dict[str, int] = field(default_factory=dict)  # how many of them each aggregator has been told
    reads: dict[str, tuple[int, Protector]] = field(default_factory=dict)

    def write(self, who: str, after: Protector, before: tuple[int, Protector]) -> bool:
        """An update with the version that was read."""
        if after is before[1]:
            return True
        if before[0] != self.version:
            return False
        self.stored, self.version = after, self.version + 1
        return True


def _cell_pods(world: _World, cell: str, deleted: int) -> dict[str, Pod]:
    gone = set(world.deleted[:deleted])
    return {name: _pod(name) for name in world.alive[cell] if name not in gone}


@settings(max_examples=120)
@given(st.data())
def test_no_interleaving_deletes_a_pod_too_many(data: st.DataObject) -> None:
    """Webhooks and aggregators that read, write, lag and crash as they like: never below the minimum.

    Deletions that were allowed happen later or never; aggregators learn of them later still, and count what they have
    listed before; buckets are compacted; the selector is written in another way.
    """
    sizes = {"a": data.draw(st.integers(0, 4)), "b": data.draw(st.integers(1, 4))}
    least = data.draw(st.integers(0, sum(sizes.values())))
    alive = {cell: {f"{cell}-{n}" for n in range(size)} for cell, size in sizes.items()}
    tuning = Tuning(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2)))
    world = _World(alive, _protector(least, *(Cell(c, _all(n), 0.0) for c, n in sizes.items()), tuning=tuning))
    everything = sorted(alive["a"] | alive["b"])
    for step in range(data.draw(st.integers(1, 40))):
        now = NOW + step
        match data.draw(st.sampled_from(STEPS)):
            case "read":
                world.reads[data.draw(st.sampled_from(["webhook 1", "webhook 2", "a", "b"]))] = (
                    world.version,
                    world.stored,
                )
            case "judge":
                who = data.draw(st.sampled_from(["webhook 1", "webhook 2"]))
                before = world.reads.pop(who, (world.version, world.stored))
                names = data.draw(st.lists(st.sampled_from(everything), min_size=1, max_size=3, unique=True))
                names = [n for n in names if n not in world.deleted]
                asked = [_ask(n, n[0], f"r-{step}-{n}", dry_run=data.draw(st.booleans())) for n in names]
                codes, after = _admit(before[1], *asked, now=now)
                if world.write(who, after, before):
                    world.allowed |= {
                        r.pod.uid for r, code in zip(asked, codes, strict=True) if code == 0 and not r.dry_run
                    }
            case "delete" if world.allowed - set(world.deleted):
                world.deleted.append(data.draw(st.sampled_from(sorted(world.allowed - set(world.deleted)))))
            case "tell":
                cell = data.draw(st.sampled_from(["a", "b"]))
                world.told[cell] = data.draw(st.integers(world.told.get(cell, 0), len(world.deleted)))
            case "count":
                cell = data.draw(st.sampled_from(["a", "b"]))
                before = world.reads.pop(cell, (world.version, world.stored))
                told = world.told.get(cell, 0)
                listed = data.draw(st.none() | st.integers(0, told))  # what it lists may be older than what it is told
                pods = _cell_pods(world, cell, told if listed is None else listed)
                seen = Seen(pods, now, set(world.deleted[:told]), listed=listed is not None)
                found = aggregate(before[1], cell, seen, now)
                if found.to_list:  # another selector has counted
                    seen = replace(seen, pods=_cell_pods(world, cell, len(world.deleted)), listed=True)
                    found = aggregate(before[1], cell, seen, now)
                world.write(cell, before[1].with_cell(found.cell), before)
            case "edit":
                other = APP if world.stored.selector != APP else SAME
                world.stored, world.version = (
                    replace(world.stored, selector=other, aggregation=other),
                    world.version + 1,
                )
            case "crash":
                world.reads.clear()
        left = sum(sizes.values()) - len(world.allowed | set(world.deleted))
        assert left >= min(least, sum(sizes.values()))
        assert world.stored.estimate <= left
