"""Buckets of deletions: none is ever forgotten by putting them together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upgrader.in_cluster.guard.core.admission_history import (
    Bucket,
    bucket,
    compacted,
    given_back,
    reserved,
    total,
    without,
)

singles = st.builds(
    Bucket, start=st.integers(0, 99).map(float), uid=st.integers(0, 10**6).map(str), name=st.just("web-0")
)
wholes = st.builds(
    Bucket,
    start=st.integers(0, 99).map(float),
    end=st.integers(0, 99).map(float),
    counter=st.integers(4, 500),
    uids=st.frozensets(st.integers(10**7, 10**8).map(str), max_size=4),
)


@given(st.lists(singles | wholes, max_size=30), st.integers(0, 12))
def test_compaction_keeps_the_sum_of_all_counters(buckets: list[Bucket], threshold: int) -> None:
    """Podseidon's merged buckets count as one, so that its quota grows; and again changes nothing."""
    after = compacted(buckets, threshold)
    assert total(after) == total(buckets)
    assert len([b for b in after if b.uid]) <= threshold
    assert len([b for b in after if not b.uid]) <= max(1, len([b for b in buckets if not b.uid]))
    assert compacted(after, threshold) == after
    if buckets:
        assert max(b.last for b in after) == max(b.last for b in buckets)
        assert min(b.start for b in after) == min(b.start for b in buckets)


def test_the_oldest_lose_their_names() -> None:
    """Five where two may have names: one of three, and the two youngest."""
    after = compacted([Bucket(float(n), f"u{n}", f"web-{n}") for n in (3, 1, 4, 0, 2)], 2)
    many = Bucket(0.0, end=2.0, counter=3, uids=frozenset({"u0", "u1", "u2"}))
    assert after == (many, Bucket(3.0, "u3", "web-3"), Bucket(4.0, "u4", "web-4"))


def test_a_pod_among_many_takes_no_second_place() -> None:
    """Asked for again, it has a bucket of its own, which nobody's giving back frees: who asked before isn't known."""
    many = Bucket(0.0, end=2.0, counter=4, uids=frozenset({"u0", "u1", "u2"}))
    again = reserved((many,), "u1", "web-1", "r2", 7.0)
    assert total(again) == 4
    assert again == (
        Bucket(0.0, end=2.0, counter=3, uids=frozenset({"u0", "u2"})),
        Bucket(7.0, "u1", "web-1", requests=frozenset({"", "r2"})),
    )
    assert total(given_back(again, "u1", {"r2"})) == 4
    assert total(compacted(again, 0)) == 4 and compacted(again, 0)[0].known == {"u0", "u1", "u2"}


def test_an_eviction_is_known_as_one_after_many_requests() -> None:
    """It may delete the next pod of the name, whatever has deleted this one: none of its requests is freed alone."""
    found: tuple[Bucket, ...] = ()
    for n in range(40):
        found = reserved(found, "u", "db-0", f"eviction-{n}" if n < 20 else f"r{n}", 0.0)
        assert found[0].may_hang is (n > 0) and len(found[0].requests) <= 17
    assert given_back(found, "u", {*(f"eviction-{n}" for n in range(40)), *(f"r{n}" for n in range(40))})
    for n in range(40):
        found = reserved(found if n else (), "u", "db-0", f"r{n}", 0.0)
        assert not found[0].may_hang, "deletions are of the UID"


@pytest.mark.parametrize("threshold", [0, 3])
def test_evictions_that_may_delete_the_next_pod_keep_their_names(threshold: int) -> None:
    """Among many pods, it isn't known whether one may hang: the oldest deletions are put together first, then the
    oldest evictions, of which as many have their own as a PodProtector's tuning may ask for.
    """
    evictions = [Bucket(float(n), f"e{n}", f"db-{n}", requests=frozenset({f"eviction-{n}"})) for n in range(201)]
    deletions = [Bucket(n + 0.5, f"d{n}", f"web-{n}", requests=frozenset({f"r{n}"})) for n in range(5)]
    many, *rest = compacted([*evictions[:3], *deletions], threshold)
    assert rest == evictions[:3] and many.known == {f"d{n}" for n in range(5)}
    many, *rest = compacted([*evictions, *deletions], threshold)
    assert rest == evictions[1:] and many.known == {"e0", *(f"d{n}" for n in range(5))}
    assert compacted([many, *rest], threshold) == (many, *rest)


def test_of_very_many_pods_the_number_is_kept() -> None:
    """A status has limits: nobody knows the rest by name, and they count."""
    (many,) = compacted([Bucket(float(n), f"u{n}") for n in range(5000)], 0)
    assert (many.count, len(many.known), many.unknown) == (5000, 2000, 3000)
    assert without([many], many.known) == (Bucket(0.0, end=4999.0, counter=3000),)
    assert without([many], many.known, unknown=True) == ()


def test_nothing_is_put_together_below_the_threshold() -> None:
    """Names are worth more than few buckets."""
    buckets = (Bucket(0.0, end=1.0, counter=3), Bucket(2.0, "u2"))
    assert compacted(buckets, 100) == buckets
    assert compacted((), 0) == ()


def test_a_pod_is_reserved_once_and_for_each_who_asked() -> None:
    """It counts once; it is free again when the last of them has given it back."""
    one = reserved((), "u", "web-0", "r1", 5.0)
    two = reserved(one, "u", "web-0", "r2", 6.0)
    assert one == (Bucket(5.0, "u", "web-0", requests=frozenset({"r1"})),)
    assert total(two) == 1 and two[0].requests == {"r1", "r2"}
    assert given_back(two, "u", {"r1"}) == (Bucket(5.0, "u", "web-0", requests=frozenset({"r2"})),)
    assert given_back(given_back(two, "u", {"r1"}), "u", {"r2"}) == ()
    assert given_back(two, "other", {"r1", "r2"}) == two


def test_who_asks_again_and_again_fills_no_status() -> None:
    """A deletion that another webhook refuses is asked for all day: the bucket stays small, and isn't given back."""
    buckets = reserved((), "u", "web-0", "r0", 5.0)
    for number in range(10_000):
        buckets = reserved(buckets, "u", "web-0", f"r{number}", 5.0)
    assert total(buckets) == 1 and len(str(buckets[0].content)) < 2000
    assert total(given_back(buckets, "u", {f"r{number}" for number in range(10_000)})) == 1


@given(singles | wholes)
def test_a_bucket_comes_back_from_the_api(one: Bucket) -> None:
    """What is written is what is read."""
    assert bucket(one.content) == one


def test_a_bucket_of_podseidons_own_counts() -> None:
    """It has no requests; what is strange counts no less than one."""
    assert bucket({"startTime": "1970-01-01T00:00:05.000000Z", "podUID": "u"}) == Bucket(5.0, "u")
    assert total([bucket({}), bucket({"counter": -7}), bucket({"counter": True}), bucket({"podUID": 7})]) == 4
    assert total([bucket({"podUIDs": ["a", "b", 7, ""]}), bucket({"podUIDs": ["a", "b"], "counter": 1})]) == 4
    assert bucket({"startTime": "1970-01-01T00:00:05Z", "counter": 9}).last == 5.0


def test_a_place_of_an_unknown_request_is_given_back_by_no_other() -> None:
    """Podseidon, whose record guard takes over, doesn't write to whom a deletion was allowed: it may still happen when
    a second request for the pod is refused by another PodProtector.
    """
    one = Bucket(5.0, "u")
    assert given_back((one,), "u", {"r"}) == (one,)
    assert total(given_back(reserved((one,), "u", "web-0", "r", 6.0), "u", {"r"})) == 1


def test_a_request_is_kept_with_its_pod() -> None:
    """So that another process can give it back."""
    (one,) = reserved((), "u", "web-0", "r1", 5.0)
    assert one.content == {
        "startTime": "1970-01-01T00:00:05.000000Z",
        "podName": "web-0",
        "podUID": "u",
        "requests": ["r1"],
    }
    assert bucket(one.content) == one


@pytest.mark.parametrize("buckets", [(Bucket(0.0, counter=2), Bucket(1.0, counter=3))])
def test_several_buckets_of_many_become_one(buckets: tuple[Bucket, ...]) -> None:
    """However they came there."""
    assert compacted(buckets, 100) == (Bucket(0.0, end=1.0, counter=5),)
