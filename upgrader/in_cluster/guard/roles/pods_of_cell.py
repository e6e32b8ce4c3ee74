"""The pods of a cell, by namespace and UID, and the UIDs of recently deleted pods."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from upgrader.in_cluster.guard.core.label_index import LabelIndex
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.core.workloads import FINISHED, Pod, pod
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["PODS", "PodsOfCell", "counted_pod"]

PODS = Resource("v1", "pods")
_MOST_GONE = 20_000
"""The number of UIDs that are remembered; a forgotten one is read from the API."""
_MOST_LABELS, _LONGEST_LABELS = 64, 8192
"""Labels, and characters of all of them, that are kept of a pod."""
_NONE: Mapping[str, Pod] = MappingProxyType({})


class PodsOfCell:
    """For some namespaces, or for all. `changed` gets each changed pod, before and after."""

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        labels: str,
        changed: Callable[[Pod | None, Pod | None], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`labels`: a selector of the pods to watch; "": all pods."""
        self._changed, self._now, self._labels = changed, now, labels
        self._pods: dict[str, LabelIndex[Pod]] = {}
        self._gone: OrderedDict[str, bool] = OrderedDict()
        self.followed: Mapping[str, Informer[Pod]] = {
            each: Informer(api, PODS, each, labels=labels, keep=counted_pod) for each in namespaces or [""]
        }
        """By namespace; "" for all of them."""
        self.informers = tuple(self.followed.values())
        for informer in self.informers:
            informer.tell(self._set)

    @property
    def gone(self) -> Mapping[str, bool]:
        """UIDs of pods that were deleted while they were watched, and whether an eviction was seen to do that.

        Where some labels are watched, of a pod that loses them a watch tells the same.
        """
        return self._gone

    @property
    def deleted(self) -> Collection[str]:
        """UIDs of pods that certainly were."""
        return () if self._labels else self._gone

    def of(self, namespace: str) -> Mapping[str, Pod]:
        """The pods of a namespace, by UID."""
        found = self._pods.get(namespace)
        return _NONE if found is None else found.all

    def matching(self, namespace: str, selector: Selector) -> dict[str, Pod]:
        """The pods of a namespace that a selector matches, by UID."""
        found = self._pods.get(namespace)
        return {} if found is None else found.matching(selector)

    def listed(self, namespace: str) -> bool:
        """Whether the pods of a namespace were listed."""
        informer = self._of(namespace)
        return informer is not None and informer.synced.is_set()

    def last_event(self, namespace: str) -> float:
        """Until when the state of a namespace is complete, in seconds since the epoch, by this machine's clock."""
        informer = self._of(namespace)
        assert informer is not None
        return self._now() - informer.silent_seconds()

    def _of(self, namespace: str) -> Informer[Pod] | None:
        return self.followed.get(namespace) or self.followed.get("")

    def _set(self, old: Pod | None, new: Pod | None) -> None:
        found = new or old
        assert found is not None
        there = self._pods.setdefault(found.namespace, LabelIndex())
        if old is not None and (new is None or new.uid != old.uid):
            there.drop(old.uid)
            self._gone[old.uid] = old.evicted
            if len(self._gone) > _MOST_GONE:
                self._gone.popitem(last=False)
        if new is not None:
            there.put(new.uid, new)
            self._gone.pop(new.uid, None)  # its labels had left the selector, and match again
        if not there.all:
            del self._pods[found.namespace]
        self._changed(old, new)


def counted_pod(item: Object) -> Pod:
    """What a protector counts by.

    A tenant's pod may have a million bytes of labels. Of one with more than any real pod it isn't kept what selects it:
    so it has no labels, and nothing that would count it as available, ready, running or scheduled.
    """
    meta, status = item["metadata"], item.get("status") or {}
    kept = {key: meta[key] for key in ("namespace", "name", "uid", "deletionTimestamp") if key in meta}
    labels = meta.get("labels") or {}
    known = {key: status.get(key) for key in ("phase", "conditions")}
    if len(labels) > _MOST_LABELS or sum(map(len, labels)) + sum(map(len, labels.values())) > _LONGEST_LABELS:
        known = {"phase": known["phase"]} if known["phase"] in FINISHED else {}
        return pod({"metadata": kept, "status": known})
    # Most pods have the same labels as others: each string is in memory once.
    shared = {sys.intern(key): sys.intern(value) for key, value in labels.items()}
    return pod({"metadata": {**kept, "labels": shared}, "status": known})
