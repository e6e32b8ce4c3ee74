"""Cron schedules in local time: five fields, as in crontab(5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

__all__ = ["YEARS", "Cron"]

YEARS = 8
"""How far ahead the next start is looked for: 29 February may be eight years away (1896 to 1904, 2096 to 2104)."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()

    def read(self, text: str) -> frozenset[int]:
        found: set[int] = set()
        for part in text.split(","):
            span, slash, step = part.partition("/")
            if slash and (not step.isdecimal() or int(step) == 0):
                raise ValueError(f"{self.name} '{part}': the step after '/' must be a number of at least 1")
            first, last = self._span(span, open_end=bool(slash))
            found |= set(range(first, last + 1, int(step) if slash else 1))
        return frozenset(found)

    def _span(self, text: str, *, open_end: bool) -> tuple[int, int]:
        if text == "*":
            return self.least, self.most
        begin, dash, end = text.partition("-")
        first = self._number(begin)
        last = self._number(end) if dash else self.most if open_end else first
        if last < first:
            raise ValueError(f"{self.name} '{text}': the range ends before it starts")
        return first, last

    def _number(self, text: str) -> int:
        if text.lower() in self.names:
            return self.names.index(text.lower()) + self.least
        if not text.isdecimal() or not self.least <= int(text) <= self.most:
            raise ValueError(f"{self.name} '{text}': must be a number from {self.least} to {self.most}")
        return int(text)


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)


@dataclass(frozen=True)
class Cron:
    """A schedule. Of days of the month and of the week, one is enough if both are restricted, as in cron."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Raises ValueError that says which field is wrong."""
        parts = text.split()
        if len(parts) != len(_FIELDS):
            raise ValueError(
                f"'{text}' has {len(parts)} fields; write five: minute, hour, day, month and day of the week"
            )
        minutes, hours, days, months, weekdays = (field.read(part) for field, part in zip(_FIELDS, parts, strict=True))
        either = not parts[2].startswith("*") and not parts[4].startswith("*")
        week = frozenset(day % 7 for day in weekdays)
        return cls(text, tuple(sorted(minutes)), tuple(sorted(hours)), days, months, week, either)

    def starts(self, zone: tzinfo, since: datetime) -> Iterator[datetime]:
        """Each start at or after `since`, in UTC and in order, for the next eight years.

        A local time that a change of the clocks skips moves to the first valid instant; one that occurs twice counts
        once, at its first occurrence. Two that move to one instant are one start.
        """
        before: datetime | None = None
        day = since.astimezone(zone).date() - timedelta(days=1)
        last = day + timedelta(days=366 * YEARS)
        while day <= last:
            if self._on(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        start = _instant(datetime.combine(day, time(hour, minute)), zone)
                        if start >= since and (before is None or start > before):
                            yield start
                            before = start
            day += timedelta(days=1)

    def _on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


def _instant(local: datetime, zone: tzinfo) -> datetime:
    """The instant of a local time, in UTC."""
    first = local.replace(tzinfo=zone).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == local:
        return first
    # Skipped: the clocks change between the two readings of that time, by the offset after the change and before it.
    early, late = local.replace(tzinfo=zone, fold=1).astimezone(UTC), first
    offset = late.astimezone(zone).utcoffset()
    while late - early > _SECOND:
        middle = early + (late - early) // 2
        if middle.astimezone(zone).utcoffset() == offset:
            late = middle
        else:
            early = middle
    return late.replace(microsecond=0)
