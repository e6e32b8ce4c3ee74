"""A case that is repeated, and what became of a promise in it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.guard.originals.side import Side

__all__ = ["KEPT", "Case", "batches"]

KEPT = ""
"""What a round says in which the promise was kept; any other says what broke it."""


@dataclass(frozen=True)
class Case:
    """`run` gives a text for each of so many rounds, and leaves nothing behind; what it leaves to chance is up to the
    `Random`. `original`: the project that is asked the same.
    """

    key: str
    what: str
    original: str
    run: Callable[[Side, int, random.Random], list[str]]


def batches(rounds: int, most: int) -> Iterator[int]:
    """How many rounds to have at the same time, until all have been."""
    while rounds > 0:
        yield min(rounds, most)
        rounds -= most
