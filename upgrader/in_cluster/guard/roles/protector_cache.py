"""The existing PodProtectors, parsed once for each change, by namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from upgrader.in_cluster.guard.core.label_index import SelectorIndex
from upgrader.in_cluster.guard.core.protector import Protector, Tuning
from upgrader.in_cluster.guard.core.protector_object import corrected, digest_of_status, read, selectors_of
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer, Key, version_of
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["POD_PROTECTORS", "Held", "NewestProtectors", "ProtectorCache", "Unreadable"]

POD_PROTECTORS = Resource("podseidon.kubewharf.io/v1alpha1", "podprotectors")


_META = ("namespace", "name", "uid", "resourceVersion", "deletionTimestamp")
_SPEC = ("minAvailable", "minReadySeconds", "selector", "aggregationSelector", "admissionHistoryConfig")
_OWN = ("podseidon.kubewharf.io/", "guard.upgrader.io/")
_LONGEST_OWN = 4096


@dataclass(frozen=True)
class Held:
    """A protector, and what is needed of the API's object that it was parsed from: to decide, and to write its status,
    where the API server takes nothing else from what is written.
    """

    item: Object
    protector: Protector


@dataclass(frozen=True)
class Unreadable:
    """A PodProtector that can't be read, and why.

    `selectors`: of the pods that it protects or counts; none if they can't be read either: then it may be any pod of
    its namespace. `status`: the digest of its status, if its spec can be read, so that guard corrects it.
    """

    namespace: str
    name: str
    why: str
    selectors: tuple[Selector, ...] = field(default=(), compare=False)
    status: str = field(default="", compare=False)

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels may be one of its pods."""
        return not self.selectors or any(each.matches(labels) for each in self.selectors)

    def __str__(self) -> str:
        remedy = "correct it, or delete it"
        if self.status:
            remedy = "the aggregator rewrites its status a minute after its last change"
        return f"PodProtector {self.namespace}/{self.name} can't be read: {self.why}; {remedy}"


class ProtectorCache:
    """For some namespaces, or for all of them."""

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        defaults: Tuning,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`namespaces` empty: all."""
        self._defaults = defaults
        self._listeners: list[Callable[[Key], None]] = []
        self._held: dict[str, dict[str, Held]] = {}
        self._by_labels: dict[str, SelectorIndex[str]] = {}
        self._unreadable: dict[str, dict[str, Unreadable]] = {}
        self.followed: Mapping[str, Informer[Any]] = {
            each: Informer(api, POD_PROTECTORS, each, keep=self._kept, clock=clock) for each in namespaces or [""]
        }
        """By namespace; "" for all of them."""
        self.informers = tuple(self.followed.values())
        for informer in self.informers:
            informer.tell(self._set)

    def why_not(self, namespace: str) -> str:
        """Why it doesn't know all of a namespace; "" if it does. That one can't be listed says nothing of the others:
        its own administrators may have deleted guard's rights there.
        """
        informer = self.followed.get(namespace) or self.followed.get("")
        return "" if informer is None else informer.why_not

    def get(self, key: Key) -> Held | None:
        """One protector; None if there is none, or if it can't be parsed."""
        return self._held.get(key[0], {}).get(key[1])

    def possible(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Protector]:
        """The protectors of a namespace that may protect or count a pod with these labels: all others don't."""
        held, index = self._held.get(namespace, {}), self._by_labels.get(namespace)
        return (held[name].protector for name in (index.possible(labels) if index else ()))

    @property
    def unreadable_count(self) -> int:
        """How many can't be read."""
        return sum(map(len, self._unreadable.values()))

    def unreadable(self, namespace: str, labels: Mapping[str, str]) -> Unreadable | None:
        """A protector that can't be read, and may protect a pod with these labels, before all others one that guard
        doesn't correct; None if there is none. Other workloads' pods aren't its business: who may write one
        protector's status keeps none of them.
        """
        found = (each for each in self._unreadable.get(namespace, {}).values() if each.concerns(labels))
        return min(found, key=lambda each: bool(each.status), default=None)

    def why_unreadable(self, item: Object, why: str) -> Unreadable:
        """What is told of the API's object that can't be read, and why."""
        meta = item["metadata"]
        where = meta.get("namespace", "")
        return Unreadable(where, meta["name"], why, selectors_of(item), self._correctable(item))

    def with_unreadable_status(self) -> list[Key]:
        """Those of which nothing but the status can't be read."""
        found = (each for names in self._unreadable.values() for each in names.values())
        return [(each.namespace, each.name) for each in found if each.status]

    def unreadable_status(self, key: Key) -> str:
        """The digest of the status that alone can't be read; "" if it can, or more can't."""
        found = self._unreadable.get(key[0], {}).get(key[1])
        return found.status if found is not None else ""

    def __iter__(self) -> Iterator[Held]:
        return (held for names in self._held.values() for held in names.values())

    def tell(self, changed: Callable[[Key], None]) -> None:
        """Call the function for each protector that changes or is deleted from now on."""
        self._listeners.append(changed)

    def read(self, item: Object) -> Protector:
        """A protector from the API's object. The cached one isn't parsed again. Raises InvalidProtector."""
        meta = item["metadata"]
        held = self.get((meta.get("namespace", ""), meta["name"]))
        return held.protector if held is not None and held.item is item else read(item, self._defaults)

    def corrected(self, item: Object) -> tuple[Protector, Mapping[str, Any]]:
        """See `protector_object.corrected`."""
        return corrected(item, self._defaults)

    def _kept(self, item: dict[str, Any]) -> Held | Unreadable:
        try:
            protector = read(item, self._defaults)
            return Held(_needed(item), protector)
        except ValueError as error:
            return self.why_unreadable(item, str(error))

    def _correctable(self, item: Object) -> str:
        """The digest of the status that alone can't be read."""
        try:
            corrected(item, self._defaults)
            _needed(item)
            return digest_of_status(item)
        except (ValueError, RecursionError):  # nested too deeply
            return ""

    def _set(self, before: Held | Unreadable | None, after: Held | Unreadable | None) -> None:
        found = after or before
        assert found is not None
        of = found if isinstance(found, Unreadable) else found.protector
        for cached in (self._held, self._unreadable):
            cached.get(of.namespace, {}).pop(of.name, None)
        if isinstance(after, Unreadable):
            self._unreadable.setdefault(of.namespace, {})[of.name] = after
            if before != after:
                whose = "its pods" if after.selectors else "all pods of its namespace"
                LOG.error("a PodProtector can't be read", extra={"kept": whose, "reason": str(after)})
        elif after is not None:
            self._held.setdefault(of.namespace, {})[of.name] = after
        for each in (self._held, self._unreadable):
            if not each.get(of.namespace, True):
                del each[of.namespace]
        self._index(before, after)
        for changed in self._listeners:
            changed((of.namespace, of.name))

    def _index(self, before: Held | Unreadable | None, after: Held | Unreadable | None) -> None:
        """Only where selectors change: every deletion changes the status."""
        old = before.protector if isinstance(before, Held) else None
        new = after.protector if isinstance(after, Held) else None
        if old is not None and new is not None and old.selectors == new.selectors:
            return
        if old is not None:
            self._by_labels[old.namespace].remove(old.name, old.selectors)
        if new is not None:
            self._by_labels.setdefault(new.namespace, SelectorIndex()).add(new.name, new.selectors)
        elif old is not None and old.namespace not in self._held:
            del self._by_labels[old.namespace]


class NewestProtectors:
    """The newest version of each protector that this process knows: from its watch, or from a write that the watch
    doesn't show yet.

    A `Memory`: without it, each of several writes in a row would first read the object, or conflict with the previous
    one.
    """

    def __init__(self, cache: ProtectorCache) -> None:
        self._cache = cache
        self._written: dict[Key, Object] = {}
        cache.tell(self._shown)

    def newest(self, budget: Key) -> Object | None:
        """None if the watch doesn't know it."""
        held = self._cache.get(budget)
        return None if held is None else self._written.get(budget, held.item)

    def wrote(self, budget: Key, item: Object) -> None:
        """The API's answer to a write of this process."""
        self._written[budget] = item
        self._shown(budget)  # the watch may have been faster than the write's answer

    def outdated(self, budget: Key) -> None:
        """Another process has written since; the watch will show it."""
        self._written.pop(budget, None)

    def _shown(self, budget: Key) -> None:
        mine, held = self._written.get(budget), self._cache.get(budget)
        if mine is not None and (held is None or version_of(held.item) == version_of(mine)):
            del self._written[budget]


def _needed(item: Mapping[str, Any]) -> Object:
    """What is needed of the API's object. Raises ValueError if guard's own labels and annotations are too large."""
    meta, spec = item["metadata"], item["spec"]
    kept = {key: meta[key] for key in _META if key in meta}
    for kind in ("labels", "annotations"):
        kept[kind] = own = {key: text for key, text in (meta.get(kind) or {}).items() if key.startswith(_OWN)}
        if (size := sum(len(key) + len(text) for key, text in own.items())) > _LONGEST_OWN:
            raise ValueError(f"its {kind} of guard have {size} characters, more than {_LONGEST_OWN}")
    kept["finalizers"] = [each for each in meta.get("finalizers") or () if each.startswith(_OWN)][:1]
    return {**item, "metadata": kept, "spec": {key: spec[key] for key in _SPEC if key in spec}}
