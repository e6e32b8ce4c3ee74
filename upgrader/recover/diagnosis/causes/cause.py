"""A cause, and the words that all causes share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from upgrader.model.finding import Finding
from upgrader.model.log_lines import headline

__all__ = ["Cause", "duration", "last_words", "moment", "size"]


@dataclass(frozen=True)
class Cause:
    """A finding with its place among others.

    `explains`: kube-apiserver can't serve here while this is so, so that its absence is no finding of its own.
    `blocks`: nor could a standby pod that a recovery puts in place; manual action is required first. `stops`: nothing
    must be done here before, even where kube-apiserver serves: what it serves is wrong.
    """

    finding: Finding
    explains: bool = False
    blocks: bool = False
    stops: bool = False


def size(count: int) -> str:
    """Bytes for people: `0 B`, `12 MiB`, `1.5 GiB`."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}" if value >= 10 or value == int(value) else f"{value:.1f} {units[0]}"


def duration(seconds: float) -> str:
    """Seconds for people: `12 s`, `5 min`, `3 h`, `4 days`."""
    for length, unit in ((172800.0, "days"), (5400.0, "h"), (90.0, "min")):
        if seconds >= length:
            return f"{seconds / {'days': 86400, 'h': 3600, 'min': 60}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"


def moment(seconds: float) -> str:
    """Seconds since the epoch as `2026-11-21 14:05 UTC`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def last_words(lines: Sequence[str]) -> str:
    """The line of a log that most likely names the cause; etcd's JSON is read as such."""
    for line in reversed(lines):
        try:
            entry = json.loads(line)
            if entry["level"] in ("error", "fatal", "panic"):
                return ": ".join(str(entry[key]) for key in ("msg", "error") if entry.get(key))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return headline(tuple(lines))
