"""The Lease of a group: what is noted before a downscale, and what becomes of it, whoever is killed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import changed, members, without, zone
from upgrader.in_cluster.guard.core.group_lease import (
    OPEN_SECONDS,
    SETS,
    VALID_SECONDS,
    GroupLease,
    LeaseUnreadable,
    Lock,
    Open,
    Preparing,
    Record,
    ever_ran,
    locked,
    manifest,
    name_of,
    read,
    seen_sets,
    told,
    unseen,
    waiting,
    with_open,
)

A, B = "web-zone-a", "web-zone-b"
GROUP = ("ns", "web")
SETS_OF = (zone(A, generation=5), zone(B, generation=2))
PODS = (*members(A), *members(B))
OPENED = with_open(GroupLease(), SETS_OF[0], Preparing(A, 3, 1), 1000.5)
OLD = frozenset(waiting(OPENED))
GOING = with_open(GroupLease(), SETS_OF[0], Preparing(A, 3, 1), 1000.5, {f"{A}-1": f"{A}-1", f"{A}-2": f"{A}-2"})


def shrunk(replicas: int = 1) -> tuple[Any, ...]:
    """The same sets, of which the first has been downscaled."""
    return zone(A, replicas, generation=6), SETS_OF[1]


def test_it_is_read_as_it_was_written() -> None:
    """Lock, last and open downscales; what others have written on the Lease stays."""
    lock = Lock("me", "a downscale of a", Preparing(A, 3, 1))
    lease = GroupLease(lock, {A: Record(A, 7.0, Open(1000.25, 3, 1, 5), 3, {f"{A}-2": "uid"}), B: Record(B)})
    item = manifest("ops", GROUP, None, lease, 50.0)
    assert item["metadata"]["name"] == "guard-group.ns.web" and item["metadata"]["namespace"] == "ops"
    again = read(item)
    assert again.sets == lease.sets and again.lock is not None
    assert (again.lock.holder, again.lock.why, again.lock.preparing) == (lock.holder, lock.why, lock.preparing)
    item["metadata"]["annotations"]["theirs"] = "x"
    released = manifest("ops", GROUP, item, GroupLease(None, lease.sets), 60.0)
    assert read(released).lock is None and released["metadata"]["annotations"]["theirs"] == "x"
    assert read(None) == GroupLease()


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {}}', '{"a": {"uid": "x", "last": "soon"}}'])
def test_what_nobody_can_read_is_no_empty_lease(text: str) -> None:
    """Unknown isn't "nobody has the lock, and nothing was downscaled"."""
    with pytest.raises(LeaseUnreadable):
        read({"metadata": {"annotations": {SETS: text}}, "spec": {}})
    opened = {"a": {"uid": "x", "open": {"at": "2026-01-01T00:00:00Z", "before": True, "after": 1, "generation": 1}}}
    with pytest.raises(LeaseUnreadable, match="True is not a number"):
        read({"metadata": {"annotations": {SETS: json.dumps(opened)}}, "spec": {}})


def test_groups_that_cannot_be_names_have_leases_too() -> None:
    """A label may have capitals and underscores, a Lease's name may not; no two groups share one."""
    names = {name_of("ns", group) for group in ("web", "Web", "web_1", "web_2")}
    assert len(names) == 4 and all(name == name.lower() and "_" not in name for name in names)


def test_an_allowed_downscale_keeps_the_others_until_it_is_seen() -> None:
    """By the set itself: not by time, and not by another change of it."""
    assert list(unseen(OPENED, SETS_OF, ())) == [A]
    assert list(unseen(OPENED, (zone(A, generation=6), SETS_OF[1]), ())) == [A]
    assert unseen(OPENED, shrunk(), ()) == {}
    assert OPENED.last_downscales == {A: 1000.5}


def test_a_downscale_that_is_seen_is_the_last_one() -> None:
    """From when it was allowed."""
    lease, stay = seen_sets(OPENED, shrunk(), PODS, (), ())
    assert lease.sets[A] == Record(A, last=1000.5) and stay == ()


def test_a_downscale_that_never_came_is_forgotten_and_its_pods_stay() -> None:
    """Another webhook has refused it, or the API server went away: it keeps nobody from anything after a while."""
    assert waiting(OPENED) == {next(iter(OLD)): OPEN_SECONDS}
    assert seen_sets(OPENED, SETS_OF, PODS, (), ()) == (OPENED, ())
    lease, stay = seen_sets(OPENED, SETS_OF, PODS, OLD, ())
    assert lease.last_downscales == {} and stay == (Preparing(A, 3, 1),)
    assert unseen(OPENED, SETS_OF, OLD) == {}


def test_what_may_have_been_done_counts() -> None:
    """The spec is another one by now, with more replicas: it may have had fewer in between."""
    lease, stay = seen_sets(OPENED, (zone(A, 2, generation=8), SETS_OF[1]), PODS, OLD, ())
    assert lease.last_downscales == {A: 1000.5} and stay == (Preparing(A, 2, 1),)


def test_a_second_downscale_of_the_same_set_is_a_part_of_the_open_one() -> None:
    """Whom the first one has prepared isn't forgotten."""
    lease = with_open(OPENED, SETS_OF[0], Preparing(A, 3, 2), 1010.0)
    assert lease.sets[A].unseen == Open(1010.0, 3, 1, 5)
    after = with_open(OPENED, zone(A, 1, generation=6), Preparing(A, 1, 0), 1010.0)
    assert after.sets[A] == Record(A, last=1000.5, unseen=Open(1010.0, 1, 0, 6))


def test_who_was_killed_while_pods_were_prepared_leaves_them_to_others() -> None:
    """The lock says which; it is given up after a while. Those that an allowed downscale takes go, and aren't told."""
    lock = Lock("killed", "a downscale", Preparing(A, 3, 1), renewed="t")
    lease = GroupLease(lock)
    assert waiting(lease) == {("lock", "killed", "t"): VALID_SECONDS}
    assert seen_sets(lease, SETS_OF, PODS, (), ())[1] == ()
    assert seen_sets(lease, SETS_OF, PODS, set(waiting(lease)), ()) == (GroupLease(), (Preparing(A, 3, 1),))
    both = GroupLease(lock, with_open(GroupLease(), SETS_OF[0], Preparing(A, 3, 2), 1000.0).sets)
    next_ = locked(lease, Lock("other", "a downscale of b"), set(waiting(lease)))
    assert next_.stay == (Preparing(A, 3, 1),), "whoever takes it over keeps it in mind"
    assert read(manifest("ops", GROUP, None, next_, 1.0)).stay == next_.stay
    assert seen_sets(next_, SETS_OF, PODS, (), ())[1] == next_.stay
    assert seen_sets(next_, (zone(A, 1), SETS_OF[1]), PODS, (), ())[1] == (), "they are gone"
    assert seen_sets(both, SETS_OF, PODS, {("lock", "killed", "t")}, ())[1] == (Preparing(A, 2, 1),)


AGAIN = (replace(zone(A, generation=1, observed_generation=1), uid="again"), SETS_OF[1])


def test_a_set_that_is_created_again_is_the_same_zone() -> None:
    """`kubectl delete --cascade=orphan`, and applied again: its last downscale still counts, one that was open too, as
    it may have been done. That one can't come any more. How many ordinals ever ran isn't known: all.
    """
    assert unseen(OPENED, AGAIN, ()) == {}
    seen, _ = seen_sets(OPENED, shrunk(), PODS, (), {A})
    for before in (OPENED, seen):
        lease, stay = seen_sets(before, AGAIN, PODS, (), {A})
        assert (lease.sets, stay) == ({A: Record("again", last=1000.5, ever_ran=3)}, ())
        assert seen_sets(before, AGAIN, PODS, (), ())[0].last_downscales == {A: 1000.5}
        opened = with_open(before, AGAIN[0], Preparing(A, 3, 2), 2000.0)
        assert opened.sets[A] == Record("again", last=1000.5, unseen=Open(2000.0, 3, 2, 1))


def test_prepared_pods_of_a_set_that_is_created_again_are_kept_in_mind() -> None:
    """Its pods are the same ones, also before it owns them: until they are told, no other set changes. New pods of
    their names were told nothing.
    """
    assert list(unseen(GOING, AGAIN, ())) == [A]
    unaware = (replace(AGAIN[0], observed_generation=0), AGAIN[1])
    orphans = [replace(each, owner_uid="", owner_kind="", owner_name="") for each in PODS]
    waits, stay = seen_sets(GOING, unaware, orphans, (), ())
    assert (sorted(waits.sets[A].prepared), stay) == ([f"{A}-1", f"{A}-2"], ())
    adopted = [replace(each, owner_uid="again") for each in PODS]
    lease, stay = seen_sets(waits, AGAIN, adopted, (), ())
    assert (lease.sets[A].last, stay) == (1000.5, (Preparing(A, 2, 1), Preparing(A, 3, 2)))
    assert told(lease, Preparing(A, 3, 1), AGAIN[0], {}).sets[A].prepared == {}
    others = [replace(each, owner_uid="again", uid=f"new-{each.uid}") for each in PODS]
    lease, stay = seen_sets(GOING, AGAIN, others, (), ())
    assert (lease.sets[A].prepared, stay) == ({}, ())


def test_ordinals_that_ran_are_noted() -> None:
    """All, of a set that is seen for the first time; later those that were seen to run, and no longer those that a
    downscale has taken.
    """
    lease, _ = seen_sets(GroupLease(), SETS_OF, without(PODS, f"{A}-2"), (), {A})
    assert lease.sets[A].ever_ran == 3 and B not in lease.sets
    grown = (zone(A, 5), SETS_OF[1])
    pending = (*PODS, *changed(members(A, count=5)[3:], f"{A}-4", phase="Pending"))
    lease, _ = seen_sets(lease, grown, pending, (), {A})
    assert lease.sets[A].ever_ran == 4
    lease = with_open(lease, grown[0], Preparing(A, 5, 2), 1.0)
    lease, _ = seen_sets(lease, (zone(A, 2, generation=1), SETS_OF[1]), without(PODS, f"{A}-2"), (), {A})
    assert lease.sets[A].ever_ran == 2


def test_ordinals_that_ran_are_noted_wherever_they_begin() -> None:
    """By the ordinal, so that another beginning changes nothing about those that ran."""
    late = (zone(A, 2, first_ordinal=3), SETS_OF[1])
    pods = [replace(each, owner_uid=A) for each in members("web-zone-a", count=5)[3:]]
    lease, _ = seen_sets(GroupLease(), late, pods, (), {A})
    assert lease.sets[A].ever_ran == 5 == ever_ran(lease, late[0]) == ever_ran(GroupLease(), late[0])
    lower = zone(A, 5, first_ordinal=0)
    assert seen_sets(lease, (lower, SETS_OF[1]), (), (), {A})[0].sets[A].ever_ran == 5
    opened = with_open(lease, late[0], Preparing(A, 2, 1), 1.0)
    shrunk_late = (zone(A, 1, first_ordinal=3, generation=1), SETS_OF[1])
    assert seen_sets(opened, shrunk_late, pods[:1], (), {A})[0].sets[A].ever_ran == 4


def test_a_pod_that_was_told_that_it_goes_is_kept_in_mind_until_it_is_gone() -> None:
    """By its UID: one that ends, or another one of its name, isn't it."""
    lease, stay = seen_sets(GOING, shrunk(), PODS, (), ())
    assert (sorted(lease.sets[A].prepared), stay) == ([f"{A}-1", f"{A}-2"], ()), "they go yet"
    assert read(manifest("ops", GROUP, None, lease, 1.0)).sets[A].prepared == lease.sets[A].prepared
    ending = changed(without(PODS, f"{A}-1"), f"{A}-2", terminating=True)
    assert seen_sets(lease, shrunk(), ending, (), ())[0].sets[A].prepared == {}
    another = changed(PODS, f"{A}-2", uid="another")
    assert sorted(seen_sets(lease, shrunk(), another, (), ())[0].sets[A].prepared) == [f"{A}-1"]


def test_a_prepared_pod_over_which_replicas_grow_back_stays() -> None:
    """Its controller hadn't removed it: it is to be told, once the controller knows that it stays, and keeps the other
    sets as they are until it was.
    """
    gone, _ = seen_sets(GOING, shrunk(), PODS, (), ())
    assert unseen(gone, shrunk(), ()) == {}
    grown = (zone(A, 2, generation=7, observed_generation=7), SETS_OF[1])
    lease, stay = seen_sets(gone, grown, PODS, (), ())
    assert stay == (Preparing(A, 2, 1),)
    assert list(unseen(lease, grown, ())) == [A] and f"{A}-1" in unseen(lease, grown, ())[A]
    unaware = (replace(grown[0], observed_generation=6), SETS_OF[1])
    assert seen_sets(gone, unaware, PODS, (), ())[1] == ()
    failed = told(lease, stay[0], grown[0], {f"{A}-1": f"{A}-1"})
    assert failed == lease
    done = told(lease, stay[0], grown[0], {})
    assert list(done.sets[A].prepared) == [f"{A}-2"] and unseen(done, grown, ()) == {}
    assert seen_sets(done, grown, PODS, (), ())[1] == ()
    assert told(lease, stay[0], replace(grown[0], uid="another"), {}) == lease


def test_while_a_downscale_is_open_its_pods_go() -> None:
    """The set has as many replicas as before, as nobody has stored fewer yet."""
    assert seen_sets(GOING, SETS_OF, PODS, (), ()) == (GOING, ())
    lease, stay = seen_sets(GOING, SETS_OF, PODS, set(waiting(GOING)), ())
    assert stay == (Preparing(A, 3, 1),), "each is told once"
    assert told(lease, stay[0], SETS_OF[0], {}).sets[A].prepared == {}
