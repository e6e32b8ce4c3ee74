"""Cells that haven't been counted for some minutes, as their cluster is gone, or their aggregator: whether any of their
pods is left isn't known, and no pod of another cell may go because of them.

An aggregator of guard writes when it last knew its cell, at least every 90 s. Here, only the time between two such
changes counts, by this process's own clock. A process that has just started has seen none: it compares what the
aggregator wrote with its own clock once, and takes a cell for silent at once where no difference of the two clocks
explains it. Podseidon's aggregator writes nothing while no pod changes, so that its silence tells nothing: it writes no
hash of the selector either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from upgrader.in_cluster.guard.core.protector import Protector
from upgrader.in_cluster.guard.roles.protector_cache import ProtectorCache
from upgrader.in_cluster.guard.runtime.informer import Key

__all__ = ["SilentCells"]

_SILENT_SECONDS = 300.0
"""A cache may know of a change 180 s late."""
_SURELY_SECONDS = 600.0
"""As long, and five minutes for the clocks."""


class SilentCells:
    """Of the protectors that a cache has; made before the cache knows any."""

    def __init__(
        self,
        cache: ProtectorCache,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`clock` measures durations; `now`: in seconds since the epoch."""
        self._cache, self._clock, self._now = cache, clock, now
        self._since: dict[Key, dict[str, tuple[float | None, float]]] = {}
        cache.tell(self._changed)

    def left_out(self, protector: Protector, asking: str) -> Protector:
        """The protector without the pods of silent cells, to decide by; with those of the cell that asks: its own API
        server is there, and each of its deletions is recorded.
        """
        known, now = self._since.get((protector.namespace, protector.name), {}), self._clock()
        silent = {
            cell.name
            for cell in protector.cells
            if cell.name != asking and cell.counted_by and cell.name in known
            if known[cell.name][0] == cell.last_event and now - known[cell.name][1] >= _SILENT_SECONDS
        }
        return replace(protector, silent=frozenset(silent)) if silent else protector

    def _changed(self, key: Key) -> None:
        held, now = self._cache.get(key), self._clock()
        known = self._since.pop(key, {})
        if held is None or len(held.protector.cells) < 2:
            return  # no cell has another one to wait for
        found: dict[str, tuple[float | None, float]] = {}
        for cell in held.protector.cells:
            before = known.get(cell.name)
            if before is None and self._is_old(cell.last_event):
                before = cell.last_event, -math.inf
            found[cell.name] = before if before and before[0] == cell.last_event else (cell.last_event, now)
        self._since[key] = found

    def _is_old(self, last_event: float | None) -> bool:
        return last_event is not None and self._now() - last_event >= _SURELY_SECONDS
