"""The order in which people look for a name."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["in_natural_order", "natural"]

_NUMBERS = re.compile("([0-9]+)")


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key: `eu-2` comes before `eu-10`."""
    parts = _NUMBERS.split(name)  # every second one is a number
    return tuple((int(part), part) if place % 2 else (-1, part) for place, part in enumerate(parts))


def in_natural_order(names: Iterable[str]) -> list[str]:
    """The names, as they are listed for people."""
    return sorted(names, key=natural)
