"""Counts outcomes: by phase, by kind of request, client and address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from upgrader.gates.availability.histogram import Histogram
from upgrader.gates.availability.retry_policy import Outcome
from upgrader.model.availability import Availability, Failure, Lane, Latency, Phase, Watches

__all__ = ["KEPT_FAILURES", "Probed", "Tally"]

KEPT_FAILURES = 500
"""How many failures are kept one by one: at 10 requests a second, close to a minute without any API."""

NEWEST_FAILURES = 20
"""How many are reported while counting continues."""


@dataclass(frozen=True)
class Probed:
    """A request that was due at `due` (loop's time), or `time` by the wall clock (seconds since 1970)."""

    address: str
    client: str
    request: str
    phase: str
    due: float
    time: float

    def failure(self, error: str) -> Failure:
        """The request as a failure."""
        time = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Failure(time, self.address, self.client, self.request, error, self.phase)


@dataclass
class _Counts:
    requests: int = 0
    failed: int = 0
    raw_failed: int = 0
    gap: float = 0.0
    latency: Histogram = field(default_factory=Histogram)

    def count(self, outcome: Outcome) -> None:
        self.requests += 1
        self.failed += not outcome.ok
        self.raw_failed += outcome.raw_failed


@dataclass
class _Gap:
    """The time since the last successful answer through an address, and the phases that it overlaps."""

    since: float
    phases: list[str]


class Tally:
    """Outcomes so far. All times are in one monotonic clock's seconds.

    A request belongs to the phase in which it was due, whenever it ends. A gap belongs, with its whole length, to every
    phase that it overlaps.
    """

    def __init__(self, started: float, addresses: tuple[str, ...]) -> None:
        self.phase = ""
        """The present phase."""
        self._all = _Counts()
        self._phases: defaultdict[str, _Counts] = defaultdict(_Counts)
        self._lanes: defaultdict[tuple[str, str, str], _Counts] = defaultdict(_Counts)
        self._gaps = {address: _Gap(started, [""]) for address in addresses}
        self._failures: list[Failure] = []
        self._raw_failures: list[Failure] = []
        self._stalled = 0.0

    def enter(self, phase: str) -> None:
        """The phase from now on."""
        self.phase = phase
        for gap in self._gaps.values():
            if phase not in gap.phases:
                gap.phases.append(phase)

    def stalled(self, seconds: float) -> None:
        """Exclude a time in which the prober was not scheduled: it has no meaning for the server."""
        self._stalled = max(self._stalled, seconds)
        for gap in self._gaps.values():
            gap.since += seconds

    def record(self, probed: Probed, outcome: Outcome, now: float) -> None:
        """Count one request that ended at `now`."""
        lane = self._lanes[probed.address, probed.client, probed.request.partition(" ")[0]]
        for counts in (self._all, self._phases[probed.phase], lane):
            counts.count(outcome)
        if outcome.ok:
            lane.latency.record(max(0.0, now - probed.due))
            self._close(probed.address, now)
        kept = self._raw_failures if outcome.ok else self._failures
        if outcome.error and len(kept) < KEPT_FAILURES:
            kept.append(probed.failure(outcome.error))

    def snapshot(self, now: float, watches: Watches, *, final: bool = True) -> Availability:
        """All counts, with the gaps that are still open; unless `final`, in short form (see Availability)."""
        for gap in self._gaps.values():
            self._credit(gap, now)
        return Availability(
            requests=self._all.requests,
            failed=self._all.failed,
            raw_failed=self._all.raw_failed,
            longest_gap_ms=round(self._all.gap * 1000, 1),
            failures=tuple(self._failures if final else self._failures[-NEWEST_FAILURES:]),
            raw_failures=tuple(self._raw_failures if final else self._raw_failures[-NEWEST_FAILURES:]),
            latency=_latency(lane.latency for lane in self._lanes.values()) if final else Latency(),
            watches=watches,
            phases=tuple(
                Phase(name, c.requests, c.failed, c.raw_failed, round(c.gap * 1000, 1))
                for name, c in self._phases.items()
            ),
            lanes=tuple(
                Lane(*key, c.requests, c.failed, c.raw_failed, _latency([c.latency]))
                for key, c in sorted(self._lanes.items())
            )
            if final
            else (),
            stalled_ms=round(self._stalled * 1000, 1),
        )

    def _close(self, address: str, now: float) -> None:
        gap = self._gaps[address]
        if now > gap.since:
            self._credit(gap, now)
            gap.since = now
            gap.phases = [self.phase]

    def _credit(self, gap: _Gap, now: float) -> None:
        for counts in (self._all, *(self._phases[phase] for phase in gap.phases)):
            counts.gap = max(counts.gap, now - gap.since)


def _latency(histograms: Iterable[Histogram]) -> Latency:
    merged = Histogram()
    merged.add(histograms)
    points = (*(merged.percentile(percent) for percent in (50, 90, 99, 99.9)), merged.maximum)
    return Latency(*(round(seconds * 1000, 2) for seconds in points))
