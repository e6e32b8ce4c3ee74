"""Whether watches tell of everything once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from upgrader.gates.availability.watch_continuity import LATE_SECONDS, Continuity


def begun(version: int = 100) -> Continuity:
    """A watch that begins after a version."""
    continuity = Continuity()
    continuity.begin(version)
    return continuity


@given(st.lists(st.tuples(st.integers(101, 130), st.booleans()), unique_by=lambda item: item[0]), st.randoms())
def test_a_complete_watch_misses_nothing(changes: list[tuple[int, bool]], random: object) -> None:
    """However acknowledgements and events are mixed, ours and those of others: all told once, nothing is missed."""
    continuity = begun()
    order = sorted(changes)
    acknowledged = [version for version, ours in changes if ours]
    for version, _ in order:
        while acknowledged and acknowledged[0] % 2:
            continuity.changed(acknowledged.pop(0), 0.0)
        continuity.event(version)
    for version in acknowledged:
        continuity.changed(version, 0.0)
    assert not continuity.overdue(LATE_SECONDS * 2)
    assert (continuity.events, continuity.missed, continuity.repeated) == (len(changes), 0, 0)


def test_a_change_that_the_watch_passed_over_is_missed() -> None:
    """A later event shows that an earlier change won't be told any more."""
    continuity = begun()
    continuity.changed(101, 0.0)
    continuity.event(102)
    assert continuity.missed == 1


def test_a_change_that_is_acknowledged_after_the_watch_passed_it_is_missed() -> None:
    """It makes no difference in which order the two connections say so."""
    continuity = begun()
    continuity.event(102)
    continuity.changed(101, 0.0)
    assert continuity.missed == 1


def test_a_bookmark_past_a_change_shows_that_it_is_missed() -> None:
    """A bookmark says that all before it has been told."""
    continuity = begun()
    continuity.changed(101, 0.0)
    continuity.passed(105)
    assert (continuity.missed, continuity.position) == (1, 105)


def test_an_event_that_comes_again_is_repeated() -> None:
    """A watch that goes back tells of the same change twice."""
    continuity = begun()
    for version in (101, 102, 101, 103):
        continuity.event(version)
    assert (continuity.repeated, continuity.missed) == (1, 0)


def test_a_change_that_is_never_told_is_missed_in_the_end() -> None:
    """A watch that is open and silent misses what it doesn't tell within ten seconds, and that once."""
    continuity = begun()
    continuity.changed(101, 5.0)
    assert not continuity.overdue(5.0 + LATE_SECONDS)
    assert continuity.overdue(5.1 + LATE_SECONDS)
    assert not continuity.overdue(60.0)
    assert continuity.missed == 1


def test_what_was_before_the_watch_is_not_expected() -> None:
    """Changes before its beginning are in the list that it began with."""
    continuity = Continuity()
    continuity.changed(99, 0.0)
    continuity.begin(100)
    continuity.changed(100, 0.0)
    assert not continuity.overdue(60.0)
    assert continuity.missed == 0


def test_a_watch_that_has_to_begin_anew_has_missed_what_lies_between() -> None:
    """When the server no longer knows where the watch was, the changes up to the new list were never told."""
    continuity = begun()
    continuity.event(101)
    continuity.changed(102, 0.0)
    continuity.expired()
    assert continuity.position == 0
    continuity.begin(105)
    assert (continuity.missed, continuity.position) == (1, 105)
