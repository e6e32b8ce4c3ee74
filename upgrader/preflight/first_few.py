"""How a title names many objects."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["first_few"]

_SHOWN = 3


def first_few(names: Sequence[str]) -> str:
    """The first three, and how many more there are: `a, b, c and 7 more`."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
