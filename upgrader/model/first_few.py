"""A list of many objects in one line."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["first_few"]

_SHOWN = 3


def first_few(names: Sequence[str], shown: int = _SHOWN) -> str:
    """The first three (or `shown`), and how many more there are: `a, b, c and 7 more`."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
