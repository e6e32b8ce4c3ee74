"""How long to wait before something is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """Twice as long each time, up to a limit, less up to a half by chance: so that replicas don't ask together."""

    def __init__(
        self, first_seconds: float = 0.5, limit_seconds: float = 30.0, chance: Callable[[], float] = random.random
    ) -> None:
        self._first, self._limit, self._chance = first_seconds, limit_seconds, chance
        self._next = first_seconds

    def next_seconds(self) -> float:
        """How long to wait this time."""
        seconds, self._next = self._next, min(self._next * 2, self._limit)
        return seconds * (1 - self._chance() / 2)

    def reset(self) -> None:
        """It worked."""
        self._next = self._first
