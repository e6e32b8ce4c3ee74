"""The existing PodProtectors, parsed once for each change, by namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from upgrader.in_cluster.guard.core.protector import Protector, Tuning
from upgrader.in_cluster.guard.core.protector_object import read
from upgrader.in_cluster.guard.core.selectors import InvalidSelector
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer, Key, version_of
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["POD_PROTECTORS", "Held", "NewestProtectors", "ProtectorCache"]

POD_PROTECTORS = Resource("podseidon.kubewharf.io/v1alpha1", "podprotectors")


@dataclass(frozen=True)
class Held:
    """A protector, and the API's object that it was parsed from."""

    item: Object
    protector: Protector


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
        self.informers = tuple(
            Informer(api, POD_PROTECTORS, each, keep=_kept, clock=clock) for each in namespaces or [""]
        )
        for informer in self.informers:
            informer.tell(self._set)

    @property
    def why_not(self) -> str:
        """Why it doesn't know all of them; "" if it does."""
        return "; ".join(reason for each in self.informers if (reason := each.why_not))

    def get(self, key: Key) -> Held | None:
        """One protector; None if there is none, or if it can't be parsed."""
        return self._held.get(key[0], {}).get(key[1])

    def of(self, namespace: str) -> Iterator[Protector]:
        """The protectors of a namespace."""
        return (held.protector for held in self._held.get(namespace, {}).values())

    def __iter__(self) -> Iterator[Held]:
        return (held for names in self._held.values() for held in names.values())

    def tell(self, changed: Callable[[Key], None]) -> None:
        """Call the function for each protector that changes or is deleted from now on."""
        self._listeners.append(changed)

    def read(self, item: Object) -> Protector:
        """A protector from the API's object; raises InvalidSelector."""
        return read(item, self._defaults)

    def _set(self, before: Object | None, after: Object | None) -> None:
        found: Any = after or before
        key = (found["metadata"].get("namespace", ""), found["metadata"]["name"])
        names = self._held.setdefault(key[0], {})
        names.pop(key[1], None)
        if after is not None:
            try:
                names[key[1]] = Held(after, self.read(after))
            except (InvalidSelector, KeyError, TypeError, ValueError) as error:
                # The schema rejects what can't be parsed; the CustomResourceDefinition of others may not.
                LOG.error("a PodProtector can't be read: it protects nothing", extra={"of": key, "reason": str(error)})
        if not names:
            del self._held[key[0]]
        for changed in self._listeners:
            changed(key)


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


def _kept(item: dict[str, Any]) -> Object:
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}
