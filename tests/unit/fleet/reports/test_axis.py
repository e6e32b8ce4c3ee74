"""The time that a campaign's page shows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from upgrader.fleet.cron import Cron
from upgrader.fleet.events import ClusterEnded, ClusterStarting, Outcome
from upgrader.fleet.reports.attempts import Attempt, attempts_of
from upgrader.fleet.reports.axis import exclusion_bars, scale_until, ticks_of, window_bars
from upgrader.fleet.selectors import Selector
from upgrader.fleet.windows import Exclusion, Window

BEGIN = datetime(2026, 12, 1, 10, 30, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")


def after(**lengths: float) -> datetime:
    return BEGIN + timedelta(**lengths)


@pytest.mark.parametrize(
    ("now", "future", "over", "hours"),
    [
        (after(minutes=1), [], False, 1),
        (after(hours=10), [after(hours=20)], False, 20),
        (after(hours=10), [after(days=90)], False, 58),
        (after(days=9), [after(days=90)], False, 18 * 24),
        (after(hours=10), [after(hours=20)], True, 10),
    ],
    ids=["just begun", "what is next", "far away", "far away, after a long past", "over"],
)
def test_what_is_shown(now: datetime, future: list[datetime], over: bool, hours: float) -> None:
    """All of the past, and of the future no more than that or two days."""
    assert scale_until(BEGIN, now, future, over=over).seconds == hours * 3600


def test_marks_are_at_round_times() -> None:
    """Hours of a day, with the date at midnight; days of a long campaign."""
    day = [tick.label for tick in ticks_of(scale_until(BEGIN, after(hours=20), [], over=True))]
    assert day == ["12:00", "15:00", "18:00", "21:00", "12-02", "03:00", "06:00"]
    assert [tick.label for tick in ticks_of(scale_until(BEGIN, after(days=5), [], over=True))] == [
        f"12-{number:02}" for number in range(2, 7)
    ]
    assert len(ticks_of(scale_until(BEGIN, after(days=2000), [], over=True))) <= 8


def test_openings_that_touch_are_one_bar() -> None:
    """A window that opens each minute is one bar, and one that is open at night is a bar a night."""
    scale = scale_until(BEGIN, after(days=2), [], over=True)
    (bar,) = window_bars(Window(Selector(), Cron.parse("* * * * *"), 60.0, UTC_ZONE), scale)
    assert bar.x == 0
    nights = window_bars(Window(Selector(), Cron.parse("0 22 * * *"), 3600.0, UTC_ZONE), scale)
    assert [round(each.width, 1) for each in nights] == [2.1, 2.1]


def test_exclusion_outside_of_what_is_shown() -> None:
    """It has no bar; one that has begun before has, from the edge on."""
    scale = scale_until(BEGIN, after(days=2), [], over=True)
    day = Exclusion(Selector(), date(2026, 12, 24), date(2026, 12, 26), UTC_ZONE)
    assert exclusion_bars(day, scale) == ()
    (bar,) = exclusion_bars(replace(day, first=date(2026, 11, 30), last=date(2026, 12, 1)), scale)
    assert (bar.x, round(bar.width)) == (0, 28)


@pytest.mark.parametrize("outcome", ["succeeded", "interrupted"])
def test_attempts_end_when_their_run_did(outcome: Outcome) -> None:
    """Not when a coordinator that was away wrote it down; an end without a beginning is none."""
    events = [
        (BEGIN, ClusterEnded("b", 1, outcome, 1.0)),
        (BEGIN, ClusterStarting("a", 1)),
        (after(hours=9), ClusterEnded("a", 1, outcome, 600.0)),
        (after(hours=10), ClusterStarting("a", 2)),
    ]
    assert attempts_of(events) == {"a": (Attempt(BEGIN, after(minutes=10), outcome), Attempt(after(hours=10)))}
