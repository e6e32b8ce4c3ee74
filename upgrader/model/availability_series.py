"""What clients of the API saw over time: one sample for each second (or ten seconds) of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["NO_SERIES", "AvailabilitySeries", "Kind", "Sample", "SeriesSummary"]

_MOST = 1e9
"""More than any count, or any number of milliseconds, that a prober writes."""


@dataclass(frozen=True)
class Kind:
    """The requests of one kind (`get`, `write`, `list`, `watch`) in a sample."""

    ok: int
    failed: int
    slowest_ms: float


@dataclass(frozen=True)
class Sample:
    """The requests that were due within `seconds` from `time` on, whenever they ended.

    Latencies are those of requests that were answered, from when they were due. A request that is neither `ok` nor
    `failed` had no answer when the prober ended.
    """

    time: datetime
    seconds: float
    begun: int
    ok: int
    failed: int
    median_ms: float
    slowest_ms: float
    stalled_ms: float = 0.0
    """For how long the prober itself was not scheduled: latencies include that time."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)

    @property
    def ended(self) -> datetime:
        return self.time + timedelta(seconds=self.seconds)

    def as_json(self) -> dict[str, Any]:
        """As JSON values; `time` is ISO 8601 in UTC, with milliseconds."""
        time = self.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {**asdict(self), "time": time}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Sample:
        """From the result of `as_json`. Raises ValueError, KeyError, TypeError or AttributeError for anything else."""
        time = datetime.fromisoformat(found["time"])
        seconds = _number(found["seconds"])
        # A year that no sum of times can leave.
        if time.tzinfo is None or not 1990 < time.year < 9000 or not 0 < seconds <= 3600:
            raise ValueError("no time")
        return cls(
            time=time,
            seconds=seconds,
            begun=int(_number(found["begun"])),
            ok=int(_number(found["ok"])),
            failed=int(_number(found["failed"])),
            median_ms=_number(found["median_ms"]),
            slowest_ms=_number(found["slowest_ms"]),
            stalled_ms=_number(found["stalled_ms"]),
            kinds={
                str(name): Kind(int(_number(kind["ok"])), int(_number(kind["failed"])), _number(kind["slowest_ms"]))
                for name, kind in found["kinds"].items()
            },
        )


@dataclass(frozen=True)
class SeriesSummary:
    """The summary of a run's `availability.jsonl`, of all its processes. Times are ISO 8601 in UTC.

    `measured_seconds` is the time that samples cover, `seconds_with_failures` the part of it in which a failed request
    was due. `unanswered` requests had no answer when their prober ended. `unreadable_lines` are left out.
    """

    began: str
    ended: str
    measured_seconds: float
    seconds_with_failures: float
    requests: int
    failed: int
    unanswered: int
    slowest_ms: float
    unreadable_lines: int


@dataclass(frozen=True)
class AvailabilitySeries:
    """The samples of a run, by time."""

    samples: tuple[Sample, ...] = ()
    problem: str = ""
    """Why there are no samples."""
    unreadable: int = 0
    """How many lines of the file aren't samples: incomplete, as its process was killed or the disk was full."""

    def summary(self) -> SeriesSummary | None:
        """Its counts; None if there are no samples."""
        samples = self.samples
        if not samples:
            return None
        return SeriesSummary(
            began=samples[0].as_json()["time"],
            ended=max(samples, key=lambda each: each.ended)
            .ended.isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            measured_seconds=round(sum(each.seconds for each in samples), 3),
            seconds_with_failures=round(sum(each.seconds for each in samples if each.failed), 3),
            requests=sum(each.begun for each in samples),
            failed=sum(each.failed for each in samples),
            unanswered=sum(max(0, each.begun - each.ok - each.failed) for each in samples),
            slowest_ms=max(each.slowest_ms for each in samples),
            unreadable_lines=self.unreadable,
        )


NO_SERIES = AvailabilitySeries()
"""The value if nothing was read."""


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise ValueError("no number")
    return value
