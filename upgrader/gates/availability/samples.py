"""Samples over time: requests by the second in which they were due."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from upgrader.model.availability_series import Kind, Sample

__all__ = ["Samples"]

FINE_SECONDS = 2 * 3600.0
"""After this time a sample is of ten seconds: a run of a week stays small."""
COARSE = 10.0
LATE_SECONDS = 12.0
"""By then every request has ended, as its deadline is 10 seconds."""


@dataclass
class _Open:
    """A sample that grows. `began` is in the loop's time, `time` by the wall clock (seconds since 1970)."""

    began: float
    seconds: float
    time: float
    begun: int = 0
    ended: int = 0
    failed: int = 0
    stalled: float = 0.0
    latencies: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def closed(self) -> Sample:
        """The sample as it is now."""
        every = [seconds for each in self.latencies.values() for seconds in each]
        return Sample(
            datetime.fromtimestamp(round(self.time, 3), UTC),
            self.seconds,
            self.begun,
            self.ended - self.failed,
            self.failed,
            _ms(median(every)) if every else 0.0,
            _ms(max(every, default=0.0)),
            _ms(self.stalled),
            {
                kind: Kind(len(self.latencies[kind]), self.failures[kind], _ms(max(self.latencies[kind], default=0.0)))
                for kind in sorted({*self.latencies, *self.failures})
            },
        )


class Samples:
    """The samples that are not complete yet. All times are in the loop's clock, unless they are called wall."""

    def __init__(self, started: float, requests_per_second: float) -> None:
        self._started = started
        # At least one request in each: a time without a sample is one in which nothing was asked.
        self._least = max(1.0, math.ceil(1 / requests_per_second))
        self._open: list[_Open] = []
        self._from = started

    def begin(self, due: float, wall: float) -> None:
        """A request that is due at `due`, which is `wall` by the wall clock, is sent."""
        self._of(due, wall).begun += 1

    def end(self, kind: str, due: float, wall: float, now: float, *, ok: bool, counted: bool = True) -> None:
        """A request has ended. `counted`: `begin` was called for it."""
        sample = self._of(due, wall)
        sample.begun += not counted
        sample.ended += 1
        if ok:
            sample.latencies[kind].append(max(0.0, now - due))
        else:
            sample.failed += 1
            sample.failures[kind] += 1

    def stalled(self, seconds: float, now: float, wall: float) -> None:
        """The prober did not run for `seconds` until now."""
        self._of(now, wall).stalled += seconds

    def take(self, now: float, *, final: bool = False) -> Iterator[Sample]:
        """Samples that are complete, each once; `final`: all that there are."""
        while self._open and (final or self._is_complete(self._open[0], now)):
            first = self._open.pop(0)
            self._from = first.began + first.seconds
            yield first.closed()

    def _is_complete(self, sample: _Open, now: float) -> bool:
        over = now - (sample.began + sample.seconds)
        return over >= LATE_SECONDS or (over >= 1 and sample.ended >= sample.begun)

    def _of(self, due: float, wall: float) -> _Open:
        """The sample of a time. What belongs to one that was taken already counts to the next one: a watch's opening
        is known only at its end."""
        due, wall = max(due, self._from), wall + max(0.0, self._from - due)
        place = len(self._open)
        while place and self._open[place - 1].began > due:
            place -= 1
        if place and due < self._open[place - 1].began + self._open[place - 1].seconds:
            return self._open[place - 1]
        seconds = max(self._least, COARSE if due - self._started >= FINE_SECONDS else 0.0)
        began = self._started + (due - self._started) // seconds * seconds
        until = self._open[place].began if place < len(self._open) else math.inf
        previous = self._open[place - 1].began + self._open[place - 1].seconds if place else self._from
        began = max(began, previous)
        made = _Open(began, min(seconds, until - began), wall - (due - began))
        self._open.insert(place, made)
        return made


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
