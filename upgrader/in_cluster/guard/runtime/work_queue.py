"""What is to be looked at: each key once, however often it is added, and no earlier than it should be.

Where many are due, the namespaces take turns: one with a thousand objects that change all the time delays another one's
key by a single look, not by a thousand. Where several keys are looked at together, a namespace gets another place only
while more places are free than it holds: one whose looks take long leaves half of them to all others, and the next such
namespace half of the rest. No key is looked at twice at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from upgrader.in_cluster.guard.runtime.informer import Key

__all__ = ["WorkQueue"]

Due = TypeVar("Due", bound=Key)
"""Its namespace, and a name within it."""


class WorkQueue(Generic[Due]):
    """For one who takes; a few hundred keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, at_once: int | None = None) -> None:
        """`at_once`: how many may be taken that aren't done; None: one is taken after the other, and `done` isn't
        called.
        """
        self._clock, self._at_once = clock, at_once
        self._due: OrderedDict[str, dict[Due, float]] = OrderedDict()
        """By namespace, in the order of their turns."""
        self._taken = set[Due]()
        self._places = Counter[str]()
        """How many of those that are taken aren't done, by namespace."""
        self._changed = asyncio.Event()

    def add(self, key: Due, after_seconds: float = 0.0) -> None:
        """Due then, or earlier where it was to be so already."""
        due, its = self._clock() + after_seconds, self._due.setdefault(key[0], {})
        if due < its.get(key, float("inf")):
            its[key] = due
            self._changed.set()

    async def each(self, look: Callable[[Due], Coroutine[Any, Any, None]]) -> None:
        """Look at each key that is due, `at_once` together, until cancelled. `look` must not raise."""
        async with asyncio.TaskGroup() as group:
            while True:
                key = await self.take()
                group.create_task(look(key)).add_done_callback(partial(self._looked_at, key))

    def _looked_at(self, key: Due, _: asyncio.Task[None]) -> None:
        self.done(key)

    async def take(self) -> Due:
        """Of the namespace whose turn it is, the one that has been due for longest, once there is one, and a place; it
        is forgotten.
        """
        while True:
            self._changed.clear()
            now, first = self._clock(), float("inf")
            for namespace, its in self._due.items():
                if not self._has_place(namespace):
                    continue
                key = min((each for each in its if each not in self._taken), key=its.__getitem__, default=None)
                if key is None:
                    continue
                if its[key] <= now:
                    self._forget(namespace, key)
                    return key
                first = min(first, its[key])
            try:
                async with asyncio.timeout(None if first == float("inf") else first - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: Due) -> None:
        """The look at this key has ended, whose place is free now."""
        self._taken.discard(key)
        self._places -= Counter([key[0]])
        self._changed.set()

    def _has_place(self, namespace: str) -> bool:
        return self._at_once is None or self._places[namespace] < self._at_once - self._places.total()

    def _forget(self, namespace: str, key: Due) -> None:
        """The others have their turns before this namespace has the next one."""
        self._due.move_to_end(namespace)
        its = self._due[namespace]
        del its[key]
        if self._at_once is not None:
            self._taken.add(key)
            self._places[namespace] += 1
        if not its:
            del self._due[namespace]
