"""Timestamps as the API writes them, and durations as Go does; what can't be read is None."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["days_of", "duration_of", "micro_timestamp", "seconds_of", "timestamp"]

_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)"


_LAST = datetime(9000, 1, 1, tzinfo=UTC).timestamp()
"""Far from where another zone's time, or a later one, could not be written any more."""


def seconds_of(text: object) -> float | None:
    """Seconds since the epoch of an RFC 3339 timestamp; None for anything else, and for one before it or after 9000."""
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        return None
    try:
        found = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):  # a 30th of February; a time before the first year
        return None
    return found if 0 <= found < _LAST else None


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """A MicroTime of the API: RFC 3339 in UTC, with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_LONG = {"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_LONG_PARTS = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _LONG))


def days_of(text: object) -> float | None:
    """Seconds of a Prometheus duration such as `1d12h`, `90m`, `0`, its units once and in order; None for others."""
    if text == "0":
        return 0.0
    found = _LONG_PARTS.fullmatch(text) if isinstance(text, str) and text else None
    return sum(float(n or 0) * size for n, size in zip(found.groups(), _LONG.values(), strict=True)) if found else None


def duration_of(text: object) -> float | None:
    """Seconds of a Go duration such as `1h30m`, `90s`, `0`; None for anything else, and for less than nothing."""
    if not isinstance(text, str):
        return None
    if text == "0":
        return 0.0
    if not re.fullmatch(f"(?:{_PART})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
