"""For how long a webhook has known of pods that aren't available yet, as they became Ready a moment ago.

An aggregator names them, and takes each name back when the pod has been Ready for `minReadySeconds`. Where no
aggregator runs any more, names stay: such pods serve, and would go without a limit. So a name counts only for as long
as an aggregator could mean it, by this process's own clock, from when it was first seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from upgrader.in_cluster.guard.core.protector import Protector
from upgrader.in_cluster.guard.roles.protector_cache import ProtectorCache
from upgrader.in_cluster.guard.runtime.informer import Key

__all__ = ["YoungPods"]


class YoungPods:
    """Of the protectors that a cache has; made before the cache knows any."""

    def __init__(self, cache: ProtectorCache, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache, self._clock = cache, clock
        self._since: dict[Key, dict[tuple[str, str], float]] = {}
        cache.tell(self._changed)

    def still(self, protector: Protector) -> Protector:
        """The protector with those names alone that may still be meant, to decide by."""
        since = self._since.get((protector.namespace, protector.name), {})
        before = self._clock() - protector.min_ready_seconds
        old = {mark for mark, at in since.items() if at <= before}
        if not old:
            return protector
        cells = (replace(c, young=frozenset(u for u in c.young if (c.name, u) not in old)) for c in protector.cells)
        return replace(protector, cells=tuple(cells))

    def _changed(self, key: Key) -> None:
        held, now = self._cache.get(key), self._clock()
        known = self._since.pop(key, {})
        marks = [(cell.name, uid) for cell in held.protector.cells for uid in cell.young] if held else []
        if marks:
            self._since[key] = {mark: known.get(mark, now) for mark in marks}
