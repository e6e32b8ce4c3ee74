"""What this process has seen of pods: which of them an eviction has deleted, and when each became Ready.

Since Kubernetes 1.26, the API server writes into a pod that an eviction deletes it, just before it does. What a process
hasn't seen, such as what was before it began, isn't known: such an eviction may still hang.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from upgrader.in_cluster.guard.core.workloads import pod
from upgrader.in_cluster.guard.roles.ready_times import ReadyTimes
from upgrader.in_cluster.guard.roles.workload_cache import PODS
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["SeenPods"]

_MOST_EVICTED = 20_000
"""UIDs that are remembered: far more than evictions within a minute."""


@dataclass(frozen=True, slots=True)
class _Seen:
    uid: str
    evicted: bool
    ready_since: float | None


class SeenPods:
    """Of some namespaces, by UID."""

    def __init__(self, api: Api, namespaces: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._evicted: OrderedDict[str, None] = OrderedDict()
        self._became_ready = ReadyTimes(clock)
        self.informers = tuple(Informer(api, PODS, each, keep=_kept) for each in namespaces)
        for informer in self.informers:
            informer.tell(self._changed)

    @property
    def evicted(self) -> Container[str]:
        """Those that an eviction has deleted, or is about to."""
        return self._evicted

    def ready_for(self, uid: str) -> float | None:
        """For how many seconds a pod has been Ready, by no clock that is set; None if it wasn't seen to become so."""
        return self._became_ready.seconds(uid)

    def _changed(self, before: _Seen | None, after: _Seen | None) -> None:
        self._became_ready.changed(before, after)
        if after is not None and after.evicted and after.uid not in self._evicted:
            self._evicted[after.uid] = None
            if len(self._evicted) > _MOST_EVICTED:
                self._evicted.popitem(last=False)


def _kept(item: Object) -> _Seen:
    found = pod(item)
    return _Seen(found.uid, found.evicted, found.ready_since)
