"""What is to be looked at: each key once, however often it is added, and no earlier than it should be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["WorkQueue"]

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """For one who takes; a few hundred keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._added = asyncio.Event()

    def add(self, key: Key, after_seconds: float = 0.0) -> None:
        """Due then, or earlier where it was to be so already."""
        due = self._clock() + after_seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._added.set()

    async def take(self) -> Key:
        """The one that has been due for longest, once there is one; it is forgotten."""
        while True:
            self._added.clear()
            key = min(self._due, key=self._due.__getitem__, default=None)
            wait = None if key is None else self._due[key] - self._clock()
            if key is not None and wait is not None and wait <= 0:
                del self._due[key]
                return key
            try:
                async with asyncio.timeout(wait):
                    await self._added.wait()
            except TimeoutError:
                continue
