"""What a client of the API saw: how many requests, how many failed, and for how long nothing was answered."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Availability", "Failure"]


@dataclass(frozen=True)
class Failure:
    """One request that failed for good, with the wall-clock time at which it was due."""

    time: str
    """ISO 8601 in UTC, with milliseconds."""
    client: str
    request: str
    error: str

    def __str__(self) -> str:
        return f"{self.time} {self.client} {self.request}: {self.error}"


@dataclass(frozen=True)
class Availability:
    """Counts from the start of the probe until now.

    `failed` is what is left after a client did what HTTP's RFCs tell it to do; `raw_failed` counts every request
    whose first try failed. `longest_gap_ms` is the longest time between two consecutive successful answers, the time
    until the first and since the last one included.
    """

    requests: int = 0
    failed: int = 0
    raw_failed: int = 0
    longest_gap_ms: float = 0.0
    failures: tuple[Failure, ...] = ()
    """The first failures, up to a few hundred; `failed` counts them all."""
