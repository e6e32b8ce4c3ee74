"""The order of runs: by the number that each was given under the cluster's lock, which needs no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["in_order"]

T = TypeVar("T")


def in_order(runs: Iterable[T], *, name: Callable[[T], str], sequence: Callable[[T], int]) -> list[T]:
    """The runs, oldest first.

    A run without a number (0: an older version of upgrader wrote it, or the API was unreachable) stays where the time
    in its name puts it; the others share the remaining places by their numbers.
    """
    found = sorted(runs, key=name)
    numbered = iter(sorted((run for run in found if sequence(run)), key=sequence))
    return [next(numbered) if sequence(run) else run for run in found]
