"""Waiting with a deadline."""

from __future__ import annotations

from collections.abc import Iterator

from testkit.fakes.clock import FakeClock
from upgrader.errors import ApiUnavailable
from upgrader.waiting import wait_until


def test_it_returns_as_soon_as_nothing_is_missing() -> None:
    """Two looks that miss something cost two intervals, and the third ends the wait."""
    clock, answers = FakeClock(), iter(["a pod", "a pod", ""])
    assert wait_until(clock, lambda: next(answers), seconds=60, interval_seconds=5) == ""
    assert clock.monotonic() == 10


def test_time_that_is_up_returns_what_was_missing_last() -> None:
    """At the deadline the caller learns what the last look missed, not what the first did."""
    clock = FakeClock()
    missing = wait_until(clock, lambda: f"seen at {clock.monotonic():.0f}", seconds=3)
    assert missing == "seen at 3"


def test_api_that_is_away_is_waited_for() -> None:
    """An API that doesn't answer is neither the end of the wait nor a success."""
    answers: Iterator[str | Exception] = iter([ApiUnavailable("refused"), ApiUnavailable(""), ""])
    clock = FakeClock()

    def look() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert wait_until(clock, look, seconds=60) == ""
    assert clock.monotonic() == 2


def test_no_time_is_still_one_look() -> None:
    """With no time to wait, what is there already is found."""
    assert wait_until(FakeClock(), lambda: "", seconds=0) == ""
