"""What is to be looked at: each key once, however often it is added, and no earlier than it should be.

Where many are due, the namespaces take turns: one with a thousand objects that change all the time delays another one's
key by a single look, not by a thousand.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from upgrader.in_cluster.guard.runtime.informer import Key

__all__ = ["WorkQueue"]

Due = TypeVar("Due", bound=Key)
"""Its namespace, and a name within it."""


class WorkQueue(Generic[Due]):
    """For one who takes; a few hundred keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: OrderedDict[str, dict[Due, float]] = OrderedDict()
        """By namespace, in the order of their turns."""
        self._added = asyncio.Event()

    def add(self, key: Due, after_seconds: float = 0.0) -> None:
        """Due then, or earlier where it was to be so already."""
        due, its = self._clock() + after_seconds, self._due.setdefault(key[0], {})
        if due < its.get(key, float("inf")):
            its[key] = due
            self._added.set()

    async def take(self) -> Due:
        """Of the namespace whose turn it is, the one that has been due for longest, once there is one; it is
        forgotten.
        """
        while True:
            self._added.clear()
            now, first = self._clock(), float("inf")
            for namespace, its in self._due.items():
                key = min(its, key=its.__getitem__)
                if its[key] <= now:
                    self._forget(namespace, key)
                    return key
                first = min(first, its[key])
            try:
                async with asyncio.timeout(None if first == float("inf") else first - now):
                    await self._added.wait()
            except TimeoutError:
                continue

    def _forget(self, namespace: str, key: Due) -> None:
        """The others have their turns before this namespace has the next one."""
        self._due.move_to_end(namespace)
        its = self._due[namespace]
        del its[key]
        if not its:
            del self._due[namespace]
