"""Replicas by leader and by reference: the cases of rollout-operator's controller_test and replicas_test about them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import zone
from upgrader.in_cluster.guard.core.scaling import (
    FORCE,
    LEADER,
    MIN_TIME,
    Reference,
    Scaling,
    Wish,
    WriteBack,
    decide,
    reference_of,
)
from upgrader.in_cluster.guard.core.workloads import StatefulSet

A, B, C = "web-zone-a", "web-zone-b", "web-zone-c"
NOW, HOUR = 1_000_000.0, 3600.0
_FROM = "grafana.com/rollout-mirror-replicas-from-resource-"
MIRROR = {f"{_FROM}name": "web", f"{_FROM}kind": "ReplicaTemplate", f"{_FROM}api-version": "my.group/v1"}


def _follower(name: str, replicas: int, leader: str, /, **annotations: str) -> StatefulSet:
    marks = {LEADER: leader, **{f"grafana.com/{k.replace('_', '-')}": v for k, v in annotations.items()}}
    return zone(name, replicas, labels={MIN_TIME: "12h"}, annotations=marks)


def _mirror(name: str, replicas: int, **changes: str) -> StatefulSet:
    return zone(name, replicas, annotations={**MIRROR, **changes})


def _decide(*sets: StatefulSet, last: Any = None, **references: Any) -> Scaling:
    by_name = {f"web-zone-{name}": found for name, found in references.items()}
    return decide(sets, by_name, last or {}, NOW)


def _wishes(scaling: Scaling) -> list[tuple[str, int]]:
    return [(w.set.name, w.replicas) for w in scaling.wishes]


def test_a_follower_has_as_many_replicas_as_its_leader() -> None:
    """Up and down; one without a leader keeps its own."""
    assert _wishes(_decide(zone(A, 5), _follower(B, 3, A))) == [(B, 5)]
    assert _wishes(_decide(zone(A, 2), _follower(B, 3, A))) == [(B, 2)]
    assert _decide(zone(A, 3), _follower(B, 3, A), zone(C, 7)) == Scaling()
    assert _decide(zone(A, 2), _follower(B, 3, A)).wishes[0].by_reference is False


def test_replicas_are_not_changed_within_the_minimum_time_between_downscales() -> None:
    """Another zone shrank an hour ago, of twelve; later it may, and its own last downscale doesn't count."""
    sets = zone(A, 2), _follower(B, 3, A)
    assert _wishes(_decide(*sets, last={A: NOW - HOUR})) == []
    assert _wishes(_decide(*sets, last={A: NOW - 12 * HOUR})) == []
    assert _wishes(_decide(*sets, last={A: NOW - 12 * HOUR - 1})) == [(B, 2)]
    assert _wishes(_decide(*sets, last={B: NOW - 1})) == [(B, 2)]
    assert _wishes(_decide(zone(A, 4), _follower(B, 3, A), last={A: NOW - HOUR})) == [(B, 4)]


def test_the_minimum_time_may_be_an_annotation() -> None:
    """Upstream wants to have it there, and reads the label only."""
    follower = zone(B, 3, annotations={LEADER: A, MIN_TIME: "12h"})
    assert _wishes(_decide(zone(A, 2), follower, last={A: NOW - HOUR})) == []
    assert _wishes(_decide(zone(A, 2), follower, last={A: NOW - 13 * HOUR})) == [(B, 2)]


@pytest.mark.parametrize(("text", "why"), [(None, "needs"), ("soon", "not a duration")])
def test_a_minimum_time_that_cannot_be_read_is_an_event(text: str | None, why: str) -> None:
    """Not scaled, and said; with no other downscale it doesn't matter."""
    follower = zone(B, 3, annotations={LEADER: A, **({} if text is None else {MIN_TIME: text})})
    scaling = _decide(zone(A, 2), follower, last={A: NOW - HOUR})
    assert not scaling.wishes
    (event,) = scaling.events
    assert (event.about.name, event.reason) == (B, "NotScaled") and why in event.message
    assert _wishes(_decide(zone(A, 2), follower)) == [(B, 2)]


def test_a_follower_may_wait_until_its_leader_is_ready() -> None:
    """Only up, and only if it says so."""
    waits = _follower(B, 3, A, rollout_upscale_only_when_leader_ready="true")
    assert _wishes(_decide(zone(A, 5, ready_replicas=4), waits)) == []
    assert _wishes(_decide(zone(A, 5), waits)) == [(B, 5)]
    assert _wishes(_decide(zone(A, 5, ready_replicas=4), _follower(B, 3, A))) == [(B, 5)]
    assert _wishes(_decide(zone(A, 2, ready_replicas=1), waits)) == [(B, 2)]


@pytest.mark.parametrize(
    "sets",
    [
        (_follower(B, 3, "gone"),),
        (_follower(B, 3, B),),
        (_follower(A, 2, B), _follower(B, 3, A)),
        (_follower(A, 2, C), _follower(B, 3, A), _follower(C, 4, A)),
    ],
    ids=["missing", "itself", "two", "others"],
)
def test_a_leader_that_is_missing_or_in_a_circle_is_an_event(sets: tuple[StatefulSet, ...]) -> None:
    """None of them is scaled; rollouts go on, as they don't ask."""
    scaling = _decide(*sets)
    assert not scaling.wishes
    assert [e.about.name for e in scaling.events] == [s.name for s in sets]


def test_a_leader_whose_own_leader_is_missing_still_leads() -> None:
    """Only the one that misses it isn't scaled."""
    scaling = _decide(_follower(A, 2, "gone"), _follower(B, 3, A))
    assert _wishes(scaling) == [(B, 2)] and [e.about.name for e in scaling.events] == [A]


def test_zones_follow_each_other_in_a_chain() -> None:
    """c follows b follows a: both are wished for, and one is taken at a time."""
    assert _wishes(_decide(zone(A, 2), _follower(B, 3, A), _follower(C, 3, B))) == [(B, 2)]


def test_forced_replicas_count_before_the_leaders() -> None:
    """force-replicas on a follower scales immediately, also within the minimum time; elsewhere it is nothing."""
    follower = _follower(B, 3, A, rollout_force_replicas="0")
    assert _wishes(_decide(zone(A, 5), follower, last={A: NOW - 1})) == [(B, 0)]
    assert _decide(zone(A, 5, annotations={FORCE: "2"})) == Scaling()


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "9" * 99])
def test_forced_replicas_that_are_none_are_an_event(text: str) -> None:
    """No guess."""
    for scaling in (
        _decide(zone(A, 5), _follower(B, 3, A, rollout_force_replicas=text)),
        _decide(_mirror(B, 3, **{FORCE: text}), b=Reference(5, 3)),
    ):
        assert not scaling.wishes and FORCE in scaling.events[0].message


def test_a_set_has_as_many_replicas_as_its_reference() -> None:
    """Up and down; its wish knows that a delay may have to agree."""
    assert _decide(_mirror(B, 2), b=Reference(5, 2)).wishes == (Wish(_mirror(B, 2), 5, by_reference=True),)
    assert _wishes(_decide(_mirror(B, 5), b=Reference(2, 5))) == [(B, 2)]
    assert reference_of(_mirror(B, 2)) == ("my.group/v1", "ReplicaTemplate", "web")
    assert reference_of(zone(A)) is None


def test_the_minimum_time_does_not_hold_up_a_reference() -> None:
    """As its document says."""
    assert _wishes(_decide(_mirror(B, 5), zone(A), last={A: NOW - 1}, b=Reference(2, 5))) == [(B, 2)]


def test_the_references_status_shows_what_the_set_has() -> None:
    """Written if it is another number, and not if it is right already."""
    assert _decide(_mirror(B, 5), b=Reference(5, 3)).write_back == (WriteBack(_mirror(B, 5), 5),)
    assert _decide(_mirror(B, 5), b=Reference(5, 5)).write_back == ()


def test_pods_that_stay_are_told_so_each_time() -> None:
    """A downscale that was prepared and is no longer wanted is cancelled, also where replicas are forced."""
    assert _decide(_mirror(B, 5), b=Reference(5, 5)) == Scaling(staying=(_mirror(B, 5),))
    forced = _mirror(B, 5, **{FORCE: "5"})
    assert _decide(forced, b=Reference(2, 5)) == Scaling(staying=(forced,))


@pytest.mark.parametrize(
    ("text", "written"), [("true", True), ("1", True), ("false", False), ("x", False), ("", False)]
)
def test_the_status_is_not_written_where_that_is_switched_off(text: str, written: bool) -> None:
    """Anything but a yes is a no."""
    scaling = _decide(_mirror(B, 5, **{f"{_FROM}write-back": text}), b=Reference(5, 3))
    assert bool(scaling.write_back) is written


@pytest.mark.parametrize("reference", [{}, {"b": "404 Not Found"}])
def test_a_reference_that_cannot_be_read_is_an_event(reference: dict[str, str]) -> None:
    """Invalid, or without a scale: nothing fails, and the next set is looked at."""
    scaling = _decide(_mirror(B, 5), _mirror(C, 5), c=Reference(6, 5), **reference)
    assert _wishes(scaling) == [(C, 6)]
    (event,) = scaling.events
    assert event.about.name == B and "ReplicaTemplate web, which can't be read" in event.message


def test_all_sets_are_considered() -> None:
    """Those that need nothing don't hide the last one."""
    references = {name: Reference(5, 5) for name in "abc"}
    assert _wishes(_decide(_mirror(A, 5), _mirror(B, 5), _mirror(C, 3), **references)) == [(C, 5)]


def test_one_zone_can_be_forced_to_nothing_beside_two_that_follow_a_reference() -> None:
    """force-replicas=0 on one of three; and its reference's status shows what it has."""
    references = {name: Reference(5, 5) for name in "abc"}
    forced = _mirror(A, 5, **{FORCE: "0"})
    assert _wishes(_decide(forced, _mirror(B, 5), _mirror(C, 5), **references)) == [(A, 0)]
    gone = _mirror(A, 0, **{FORCE: "0"})
    assert _decide(gone, a=Reference(5, 5)).write_back == (WriteBack(gone, 0),)
