"""The result of one trial of one way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

__all__ = ["BAD_FLAG_PUSHED", "UPGRADE", "Mark", "Seen", "Trial", "per_second"]

UPGRADE, BAD_FLAG_PUSHED = "upgrade", "bad flag"


@dataclass(frozen=True)
class Mark:
    """Something began, `seconds` after the load did."""

    seconds: float
    text: str


@dataclass(frozen=True)
class Seen:
    """What clients and the controllers' control groups showed during a trial.

    `errors`: what went wrong → how often, of the first few hundred. `failed_by`: client and kind of request → how many
    failed, where any did. `answered`: good answers in each second, the first one first. Memory is that of the
    controller that had most, without caches of files, in MiB.
    """

    requests: int = 0
    failed: int = 0
    raw_failed: int = 0
    longest_gap_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    watch_events: int = 0
    watch_missed: int = 0
    watch_repeated: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    failed_by: Mapping[str, int] = field(default_factory=dict)
    memory_before_mib: float = 0.0
    memory_peak_mib: float = 0.0
    prober_stalled_ms: float = 0.0
    answered: tuple[float, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One trial.

    `command_seconds`: until the commands had ended; None where that isn't measured. `done_seconds`: until every
    pod was Ready at the target version, and no standby pod was active; None if that wasn't reached. For a bad flag it
    counts from the start of kube-apiserver's change, and `fixed_by` says who fixed it.
    """

    way: str
    what: str
    controllers: int
    load_average: float
    command_seconds: float | None
    done_seconds: float | None
    fixed_by: str = ""
    note: str = ""
    seen: Seen = field(default_factory=Seen)

    def as_json(self) -> dict[str, Any]:
        """Field by field."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Trial:
        """From what `as_json` made."""
        seen = dict(found["seen"])
        seen["answered"] = tuple(seen["answered"])
        seen["marks"] = tuple(Mark(**mark) for mark in seen["marks"])
        return cls(**{**found, "seen": Seen(**seen)})


def per_second(samples: Sequence[tuple[float, int]]) -> tuple[float, ...]:
    """How much a count grew in each second since 0.0.

    `samples` are (seconds, count so far), oldest first; between two of them the count grows evenly.
    """
    points = [(0.0, 0), *samples]
    whole = int(points[-1][0])
    counts = [_at(points, float(second)) for second in range(whole + 1)]
    return tuple(round(later - earlier, 1) for earlier, later in pairwise(counts))


def _at(points: Sequence[tuple[float, int]], seconds: float) -> float:
    """The count at a moment."""
    for (begin, low), (end, high) in pairwise(points):
        if begin <= seconds <= end:
            return low + (high - low) * (seconds - begin) / (end - begin) if end > begin else float(high)
    return float(points[-1][1])
