"""When a cluster's run may begin: inside a maintenance window, outside every exclusion, with enough time left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from upgrader.fleet.cron import Cron
from upgrader.fleet.selectors import Selector

__all__ = ["FOREVER", "Exclusion", "Opening", "Window", "next_opening"]

FOREVER = datetime(9000, 1, 1, tzinfo=UTC)
"""What begins then doesn't begin: dates end with the year 9999, also those that are reckoned with."""


@dataclass(frozen=True)
class Window:
    """Opens at each start of the schedule, in local time, for so many seconds of elapsed time."""

    selector: Selector
    cron: Cron
    seconds: float
    zone: ZoneInfo

    def openings(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Begin and end of each opening that isn't over, oldest first."""
        length = timedelta(seconds=self.seconds)
        for start in self.cron.starts(self.zone, now - length):
            if start + length > now:
                yield start, start + length


@dataclass(frozen=True)
class Exclusion:
    """No run begins from the first day to the last, both included, in local time."""

    selector: Selector
    first: date
    last: date
    zone: ZoneInfo

    @property
    def span(self) -> tuple[datetime, datetime]:
        """Begin and end in UTC; `FOREVER` at the latest."""
        if self.last.year >= FOREVER.year:
            return _midnight(self.first, self.zone), FOREVER
        return _midnight(self.first, self.zone), _midnight(self.last + timedelta(days=1), self.zone)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    """When a day begins. The first and the last day have no date in some other zones."""
    if not 1 < day.year < FOREVER.year:
        return datetime.min.replace(tzinfo=UTC) if day.year == 1 else FOREVER
    return datetime.combine(day, time(), zone).astimezone(UTC)


@dataclass(frozen=True)
class Opening:
    """When a run may begin next, and by when it has to be done."""

    begins: datetime
    """`now` where it may begin at once."""
    ends: datetime | None
    """None: nothing ends it."""


def next_opening(
    labels: Mapping[str, str],
    windows: Sequence[Window],
    exclusions: Sequence[Exclusion],
    now: datetime,
    needed_seconds: float,
) -> Opening | None:
    """The next time at which a cluster with these labels may begin a run that may take so long; None: never.

    A cluster that no window selects may begin at any time outside the exclusions.
    """
    mine = [window for window in windows if window.selector.selects(labels)]
    closed = sorted(each.span for each in exclusions if each.selector.selects(labels))
    length = timedelta(seconds=needed_seconds)
    for begin, end in _between(closed, now):
        found = [opening for window in mine if (opening := _of(window, begin, end, length))]
        if not mine and _fits(begin, end, length):
            return Opening(begin, end)
        if found:
            found.sort(key=lambda opening: opening.ends or FOREVER, reverse=True)
            return min(found, key=lambda opening: opening.begins)  # of several, the one that ends last
    return None


def _between(closed: Sequence[tuple[datetime, datetime]], now: datetime) -> Iterator[tuple[datetime, datetime | None]]:
    """The spans from `now` on that no exclusion covers; nothing ends the last one, unless there is none."""
    for first, last in closed:
        if first > now:
            yield now, first
        now = max(now, last)
    if now < FOREVER:
        yield now, None


def _of(window: Window, begin: datetime, end: datetime | None, length: timedelta) -> Opening | None:
    """The window's first opening within a span that is long enough."""
    if window.seconds < length.total_seconds():
        return None
    for opens, closes in window.openings(begin):
        if end is not None and opens >= end:
            return None
        first, last = max(opens, begin), closes if end is None else min(closes, end)
        if _fits(first, last, length):
            return Opening(first, last)
    return None


def _fits(begin: datetime, end: datetime | None, length: timedelta) -> bool:
    return end is None or begin + length <= end
