"""What clients of the API experienced: requests, failures, latencies, and what watches missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Availability", "Failure", "Lane", "Latency", "Limits", "Phase", "Watches"]


@dataclass(frozen=True)
class Failure:
    """One request that failed, with the wall-clock time at which it was due."""

    time: str
    """ISO 8601 in UTC, with milliseconds."""
    address: str
    """The `HOST:PORT` that it was sent to."""
    client: str
    request: str
    error: str
    phase: str = ""
    """The phase in which it was due, usually a step of a run; "" outside all phases."""

    def __str__(self) -> str:
        during = f" (during {self.phase})" if self.phase else ""
        return f"{self.time} {self.client} {self.request} at {self.address}{during}: {self.error}"


@dataclass(frozen=True)
class Latency:
    """Milliseconds from when a request was due until it was answered, with retries and waits."""

    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    p999: float = 0.0
    longest: float = 0.0


@dataclass(frozen=True)
class Phase:
    """The counts of all requests that were due in one phase."""

    name: str
    requests: int
    failed: int
    raw_failed: int
    longest_gap_ms: float
    """The longest gap that overlaps it."""


@dataclass(frozen=True)
class Lane:
    """The counts of one kind of request, from one kind of client, through one address."""

    address: str
    client: str
    request: str
    requests: int
    failed: int
    raw_failed: int
    latency: Latency


@dataclass(frozen=True)
class Watches:
    """The changes of an object that long watches received.

    `missed` changes never arrived, `repeated` ones arrived more than once. A watch counts as `resumed` if the server
    closed it in order and it continued on another connection.
    """

    events: int = 0
    missed: int = 0
    repeated: int = 0
    resumed: int = 0


@dataclass(frozen=True)
class Limits:
    """How much a step may disturb the API's clients before it fails."""

    max_failed: int
    max_gap_seconds: float


@dataclass(frozen=True)
class Availability:
    """Counts from the start of the probe until now.

    `failed` counts requests that failed after a client did what HTTP's RFCs require; `raw_failed` counts every
    request whose first try failed. `longest_gap_ms` is the longest time between two consecutive successful answers
    through one address, including the time until the first and since the last one.
    """

    requests: int = 0
    failed: int = 0
    raw_failed: int = 0
    longest_gap_ms: float = 0.0
    failures: tuple[Failure, ...] = ()
    """The first failures, up to a few hundred; while counting continues, the newest. `failed` counts them all."""
    raw_failures: tuple[Failure, ...] = ()
    """The first requests that succeeded only after their first try had failed, and why it failed."""
    latency: Latency = Latency()
    """Only at the end."""
    watches: Watches = Watches()
    phases: tuple[Phase, ...] = ()
    lanes: tuple[Lane, ...] = ()
    """Only at the end."""
    cpu_percent: float = 0.0
    """What the prober itself used of one core."""
    stalled_ms: float = 0.0
    """The longest time for which the prober itself was not scheduled; gaps don't include it."""

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Availability:
        """From the result of `dataclasses.asdict`."""
        return cls(
            **{
                **found,
                "failures": tuple(Failure(**item) for item in found["failures"]),
                "raw_failures": tuple(Failure(**item) for item in found["raw_failures"]),
                "latency": Latency(**found["latency"]),
                "watches": Watches(**found["watches"]),
                "phases": tuple(Phase(**item) for item in found["phases"]),
                "lanes": tuple(Lane(**{**item, "latency": Latency(**item["latency"])}) for item in found["lanes"]),
            }
        )

    def phase(self, name: str) -> Phase | None:
        """The counts of a phase; None if no request was due in it."""
        return next((phase for phase in self.phases if phase.name == name), None)
