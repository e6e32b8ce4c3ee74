"""Durations such as `90s`, `5m` or `1h30m`."""

from __future__ import annotations

import re

__all__ = ["parse_duration"]

_PATTERN = re.compile("".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit})?" for unit in "dhms"))
_MOST_SECONDS = 36500 * 24 * 3600.0
"""Of many digits, Python makes an infinite number: a deadline that never comes. And it can't wait for 300 years."""


def parse_duration(text: object) -> float:
    """Seconds in a duration; raises ValueError, with an example, for anything else.

    A bare number is refused: some tools take it for seconds, others for minutes.
    """
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None or not match.group():
        raise ValueError(f"{text!r} is not a duration; write it like 90s, 5m or 1h")
    days, hours, minutes, seconds = (float(match[unit] or 0) for unit in "dhms")
    total = (days * 24 + hours) * 3600 + minutes * 60 + seconds
    if total > _MOST_SECONDS:
        raise ValueError(f"{str(text)[:20]!r} is longer than a hundred years; write it like 90s, 5m or 1h")
    if total <= 0:
        raise ValueError(f"{text!r} is not a positive duration; write it like 90s, 5m or 1h")
    return total
