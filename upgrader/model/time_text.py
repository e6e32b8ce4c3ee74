"""Durations as people read them."""

from __future__ import annotations

from math import isfinite

__all__ = ["duration", "milliseconds"]


def duration(seconds: float) -> str:
    """`0.4 s`, `42 s`, `3 min 05 s`, `1 h 02 min`; a journal may have any number."""
    if not isfinite(seconds):
        return "an unknown time"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def milliseconds(value: float) -> str:
    """`140 ms`, `2.3 s`."""
    return f"{value:.0f} ms" if value < 1000 else duration(value / 1000)
