"""Which pods an eviction has deleted, or is about to: since Kubernetes 1.26, the API server writes it into a pod first.

What a process hasn't seen isn't known, such as what went before it began, and the pods that are Pending, into which
nothing is written: their evictions may still hang.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from upgrader.in_cluster.guard.core.workloads import pod
from upgrader.in_cluster.guard.roles.workload_cache import PODS
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["EvictedPods"]

_MOST = 20_000
"""UIDs that are remembered: far more than evictions within a minute."""


@dataclass(frozen=True, slots=True)
class _Seen:
    uid: str
    evicted: bool


class EvictedPods:
    """Of some namespaces; a container of UIDs."""

    def __init__(self, api: Api, namespaces: Sequence[str]) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()
        self.informers = tuple(Informer(api, PODS, each, keep=_kept) for each in namespaces)
        for informer in self.informers:
            informer.tell(self._changed)

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def _changed(self, _: _Seen | None, after: _Seen | None) -> None:
        if after is None or not after.evicted or after.uid in self._uids:
            return
        self._uids[after.uid] = None
        if len(self._uids) > _MOST:
            self._uids.popitem(last=False)


def _kept(item: Object) -> _Seen:
    found = pod(item)
    return _Seen(found.uid, found.evicted)
