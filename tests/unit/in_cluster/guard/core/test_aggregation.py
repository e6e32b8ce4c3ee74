"""What an aggregator writes: upstream's "aggregates pods of the cell", and which buckets may go when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import member
from upgrader.in_cluster.guard.core.admission_history import Bucket
from upgrader.in_cluster.guard.core.aggregation import Aggregate, Seen, aggregate
from upgrader.in_cluster.guard.core.protector import Cell, Counts, Protector
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.core.workloads import Pod

APP = Selector.of({"matchLabels": {"app": "web"}})
NOW = 1000.0


def _pod(name: str, **changes: Any) -> Pod:
    return member(name, labels={"app": "web"}, **changes)


def _count(pods: list[Pod], *buckets: Bucket, min_ready: int = 0, now: float = NOW, **seen: Any) -> Aggregate:
    protector = Protector("ns", "web", 1, APP, APP, min_ready, cells=(Cell("a", Counts(9, 9), 5.0, buckets),))
    return aggregate(protector, "a", Seen({p.uid: p for p in pods}, seen.pop("last_event", now), **seen), now)


def test_the_pods_of_the_cell_are_counted() -> None:
    """Each by what it is; not those that go, have ended, aren't selected, or are in another namespace."""
    pods = [
        _pod("p-1"),
        _pod("p-2", ready_since=None),
        _pod("p-3", ready_since=None, phase="Pending", scheduled=False),
        _pod("p-4", terminating=True),
        _pod("p-5", phase="Failed", ready_since=None),
        _pod("p-6", namespace="other"),
        member("db-0"),
    ]
    assert _count(pods).cell.counts == Counts(total=3, available=1, ready=1, scheduled=2, running=2)
    assert _count([]).cell.counts == Counts()


def test_ready_is_not_yet_available_and_becomes_so_without_an_event() -> None:
    """It says in how many seconds to count again, and which pods aren't available yet."""
    pods = [_pod("p-1"), _pod("p-2"), _pod("p-3")]
    found = _count(pods, min_ready=10, ready_for={"p-1": 20.0, "p-2": 2.0, "p-3": 9.0})
    assert (found.cell.counts.ready, found.cell.counts.available, found.again_in) == (3, 1, 1.0)
    assert found.cell.young == {"p-2", "p-3"}
    later = _count(pods, min_ready=10, ready_for={"p-1": 28.0, "p-2": 10.0, "p-3": 17.0})
    assert (later.cell.counts.available, later.again_in, later.cell.young) == (3, None, frozenset())
    assert _count(pods, ready_for={"p-1": 0.0}).cell.counts.available == 3, "minReadySeconds 0"


@pytest.mark.parametrize("wrong", [-7200.0, 0.0, 7200.0])
def test_what_was_seen_to_become_ready_is_available_whatever_clocks_say(wrong: float) -> None:
    """The kubelet's may be two hours before the aggregator's, or behind it."""
    pods = [_pod("p-1", ready_since=NOW - wrong), _pod("p-2", ready_since=NOW - wrong)]
    found = _count(pods, min_ready=60, ready_for={"p-1": 59.0, "p-2": 60.0})
    assert (found.cell.counts.available, found.cell.young, found.again_in) == (1, frozenset({"p-1"}), 1.0)


def test_of_a_pod_that_was_ready_before_only_its_condition_tells() -> None:
    """It may not be counted yet; that it isn't available is nothing that a webhook should rely on."""
    pods = [_pod("p-1", ready_since=NOW - 20), _pod("p-2", ready_since=NOW - 2), _pod("p-3", ready_since=float("inf"))]
    found = _count(pods, min_ready=10)
    assert (found.cell.counts.available, found.again_in, found.cell.young) == (1, 8.0, frozenset())
    assert _count(pods[2:], min_ready=10).again_in is None


def test_very_many_young_pods_fill_no_status() -> None:
    """What isn't named is judged as if it were available."""
    pods = [_pod(f"p-{n}") for n in range(1500)]
    found = _count(pods, min_ready=10, ready_for={p.uid: 1.0 for p in pods})
    assert (found.cell.counts.available, len(found.cell.young)) == (0, 1000)


def test_a_bucket_goes_in_the_write_that_no_longer_counts_its_pod() -> None:
    """Seen to terminate, to end, or to be gone; another's stays."""
    pods = [_pod("p-1", terminating=True), _pod("p-2"), _pod("p-3", phase="Succeeded", ready_since=None)]
    buckets = [Bucket(900.0, name) for name in ("p-1", "p-2", "p-3", "p-4")]
    found = _count(pods, *buckets, gone={"p-4"})
    assert [b.uid for b in found.cell.buckets] == ["p-2"]
    assert (found.cell.counts.total, found.to_read) == (1, ())


def test_a_uid_that_was_never_seen_is_read_first() -> None:
    """The cache may lag behind it; gone by the API's own word, it goes."""
    bucket = Bucket(900.0, "unknown")
    asked = _count([], bucket)
    assert (asked.cell.buckets, asked.to_read) == ((bucket,), ("unknown",))
    assert _count([], bucket, read={"unknown": None}).cell.buckets == ()
    there = _count([], bucket, read={"unknown": _pod("unknown")})
    assert (there.cell.buckets, there.to_read, there.cell.counts.available) == ((bucket,), (), 1)


def test_a_uid_that_stays_for_a_minute_is_read_first() -> None:
    """Its deletion was refused by somebody else; by this process' own clock, whatever the bucket says."""
    bucket, pods = Bucket(5.0, "p-1"), [_pod("p-1")]
    assert _count(pods, bucket).to_read == ()
    assert _count(pods, bucket, allowed_for={"p-1": 59.0}).to_read == ()
    old = {"p-1": 60.0}
    asked = _count(pods, bucket, allowed_for=old)
    assert (asked.cell.buckets, asked.to_read) == ((bucket,), ("p-1",))
    assert _count(pods, bucket, allowed_for=old, read={"p-1": _pod("p-1")}).cell == Cell(
        "a", Counts(1, 1, 1, 1, 1), NOW, counted_by=APP.digest
    )


def test_what_the_api_says_counts_before_the_cache() -> None:
    """A pod that terminates by the API's word isn't counted, although the cache still has it."""
    bucket, pods = Bucket(5.0, "p-1"), [_pod("p-1"), _pod("p-2")]
    found = _count(pods, bucket, read={"p-1": replace(_pod("p-1"), terminating=True)})
    assert (found.cell.buckets, found.cell.counts.available) == ((), 1)


@pytest.mark.parametrize("how", ["listed", "read"])
def test_a_pod_that_goes_while_the_api_is_asked_is_not_counted(how: str) -> None:
    """The watch is ahead of what the API has said a moment before: with its bucket, the pod itself goes."""
    pods, bucket = [_pod("p-1"), _pod("p-2")], Bucket(900.0, "p-1")
    asked: dict[str, Any] = {"listed": True} if how == "listed" else {"read": {"p-1": _pod("p-1")}}
    found = _count(pods if how == "listed" else pods[1:], bucket, gone={"p-1"}, **asked)
    assert (found.cell.buckets, found.cell.counts.available) == ((), 1)


@pytest.mark.parametrize("ahead", [-7200.0, 0.0, 7200.0])
def test_pods_that_nobody_knows_go_by_what_the_api_lists(ahead: float) -> None:
    """A minute after this process first saw them as they are, whatever clock the webhook has; not by its cache, which
    a watch that says nothing leaves as it was.
    """
    bucket = Bucket(900.0 + ahead, end=940.0 + ahead, counter=7)
    assert _count([], bucket).to_list is False
    young = _count([], bucket, allowed_for={"": 59.9})
    assert (young.cell.buckets, young.to_list) == ((bucket,), False)
    asked = _count([], bucket, allowed_for={"": 60.0})
    assert (asked.cell.buckets, asked.to_list) == ((bucket,), True)
    listed = _count([_pod("p-1")], bucket, allowed_for={"": 60.0}, listed=True)
    assert (listed.cell.buckets, listed.to_list, listed.cell.counts.available) == ((), False, 1)


def test_what_another_selector_has_counted_is_listed_first() -> None:
    """So is a new cell, also one in which a webhook has already recorded a deletion: no record tells of deletions that
    were allowed before. Podseidon's counts have no selector.
    """
    of_another = Cell("a", Counts(9, 9), 5.0, counted_by="another")
    only_allowed = Cell("a", buckets=(Bucket(5.0, "p-9"),))
    of_podseidon = replace(of_another, counted_by="")
    for cells, listed in (((), True), ((of_another,), True), ((only_allowed,), True), ((of_podseidon,), False)):
        protector, seen = Protector("ns", "web", 1, APP, APP, cells=cells), Seen({"p-1": _pod("p-1")}, NOW)
        asked = aggregate(protector, "a", seen, NOW)
        assert asked.to_list is listed
        found = aggregate(protector, "a", replace(seen, listed=True), NOW)
        assert (found.to_list, found.cell.counts.available, found.cell.counted_by) == (False, 1, APP.digest)
        assert not aggregate(protector.with_cell(found.cell), "a", seen, NOW).to_list


def test_pods_of_a_bucket_of_many_go_one_by_one() -> None:
    """Those that are seen to go, at once; one that was never seen is read first, and those without a name stay."""
    bucket = Bucket(5.0, end=9.0, counter=4, uids=frozenset({"p-1", "p-2", "p-3"}))
    found = _count([_pod("p-1")], bucket, gone={"p-2"})
    assert found.cell.buckets == (replace(bucket, counter=3, uids=frozenset({"p-1", "p-3"})),)
    assert found.to_read == ("p-3",)
    assert _count([], bucket, gone={"p-1", "p-2", "p-3"}).cell.buckets == (
        replace(bucket, counter=1, uids=frozenset()),
    )


def test_the_last_events_time_never_goes_back() -> None:
    """Another leader's clock may have been ahead; one that was wrong doesn't have the cell look dead until then."""
    assert _count([], last_event=3.0).cell.last_event == 5.0
    assert _count([], last_event=3.0, now=4.0).cell.last_event == 3.0
    protector = Protector("ns", "web", 1, APP, APP)
    assert aggregate(protector, "new", Seen({}, 3.0), NOW).cell == Cell("new", last_event=3.0, counted_by=APP.digest)


@pytest.mark.parametrize(
    ("requests", "hangs"),
    [
        ({"eviction-r"}, False),
        ({"eviction-"}, False),
        ({"eviction-r", "eviction-s"}, True),
        ({"eviction-r", "s"}, True),
        ({"", "eviction-r"}, True),
        ({"r", "s"}, False),
        ({""}, False),
        (set(), False),
    ],
)
def test_of_two_requests_for_a_pod_one_may_take_the_next_pod_of_its_name(requests: set[str], hangs: bool) -> None:
    """An eviction is of a name. Another request has deleted the pod of a StatefulSet or an operator, and the eviction
    may hang in a slow webhook until the next pod of that name is Ready, and delete that: the place is kept for it, for
    a minute. A single eviction may as well, unless it is seen to have deleted the pod. Two deletions are of the UID;
    the API server asks twice about a single one that takes effect at once.
    """
    bucket = Bucket(1.0, "former", "db-primary", requests=frozenset(requests))
    for pods in ([_pod("db-1")], [_pod("db-0"), _pod("db-1")]):
        known = _count(pods, bucket, evicted={"former"}, gone={"former"})
        assert known.cell.buckets == ((bucket,) if hangs else ())
        assert _count(pods, bucket, gone={"former"}).cell.buckets == ((bucket,) if bucket.evicted else ())
        assert _count(pods, bucket, allowed_for={"former": 60.0}, gone={"former"}).cell.buckets == ()


@pytest.mark.parametrize("where", ["cached", "read"])
def test_what_an_eviction_writes_into_the_pod_tells_that_it_is_over(where: str) -> None:
    """The pod terminates, and says why: no other eviction was recorded."""
    bucket, former = Bucket(1.0, "db-0", "db-0", requests=frozenset({"eviction-r"})), _pod("db-0", terminating=True)
    for evicted in (True, False):
        found = replace(former, evicted=evicted)
        seen = _count([found], bucket) if where == "cached" else _count([], bucket, read={"db-0": found})
        assert seen.cell.buckets == (() if evicted else (bucket,))
