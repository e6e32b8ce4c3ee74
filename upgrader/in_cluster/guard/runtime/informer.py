"""A cache of objects that follows the API server: list in pages, then watch."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, GuardError, VersionGone
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["Change", "Informer", "Key", "unlisted", "version_of", "whole"]

Key = tuple[str, str]
"""Namespace ("" where there is none) and name."""
_WATCH_SECONDS = 60
"""A connection that died unnoticed is noticed after that, as the server ends each watch by then."""
_SILENT_SECONDS = 180.0
"""Three watches, each of which is followed by a list where it told nothing: what is older isn't known any more."""
_SHORT_SECONDS = 1.0
_FORBIDDEN = 403


Kept = TypeVar("Kept")
_Told = TypeVar("_Told", contravariant=True)


class Change(Protocol[_Told]):
    """Is told of each change, in order; must not raise."""

    def __call__(self, before: _Told | None, after: _Told | None, /) -> None:
        """None: there was none, or there is none any more."""


def unlisted(informers: Iterable[Informer[Any]]) -> list[Informer[Any]]:
    """Those of one kind, each of a namespace, without which a process isn't ready: not listed yet.

    A namespace's administrators may delete guard's rights there. That takes guard away from no other namespace: where
    others are listed, those that are refused are only waited for.
    """
    found = list(informers)
    listed = any(each.synced.is_set() for each in found)
    return [each for each in found if not each.synced.is_set() and not (listed and each.refused)]


def whole(found: dict[str, Any]) -> Object:
    """What is kept of an object of which everything may be needed."""
    return found


class Informer(Generic[Kept]):
    """All objects of a resource that match, as they were at most a moment ago.

    `keep` makes of an object what is kept of it: a role that needs ten values of 20,000 pods keeps these alone, in
    whatever form it reads them.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        namespace: str = "",
        *,
        keep: Callable[[dict[str, Any]], Kept],
        labels: str = "",
        fields: str = "",
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._resource, self._namespace = api, resource, namespace
        self._query = {"labelSelector": labels, "fieldSelector": fields}
        self._keep, self._backoff, self._clock = keep, backoff or Backoff(), clock
        self._objects: dict[Key, Kept] = {}
        self._versions: dict[Key, str] = {}
        self._listeners: list[Change[Kept]] = []
        self._version = ""
        self._contact: float | None = None
        self._forgotten = False
        """Whether the server has forgotten a moment, and no watch has told anything since, or lasted."""
        self.refused = False
        """Whether the API server has refused what was asked for last, for want of a right."""
        self.synced = asyncio.Event()
        """Set once everything was listed for the first time."""

    @property
    def objects(self) -> Mapping[Key, Kept]:
        """What there is; the caller changes none of it."""
        return self._objects

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self._resource.plural}{f' in {self._namespace}' if self._namespace else ''}"

    @property
    def why_not(self) -> str:
        """Why it isn't known what there is; "" if it is. What isn't in `objects` then may exist all the same."""
        if not self.synced.is_set():
            return f"{self.name}: not listed yet"
        silent = self.silent_seconds()
        return f"{self.name}: the API server has sent nothing for {silent:.0f} s" if silent > _SILENT_SECONDS else ""

    def silent_seconds(self) -> float:
        """For how long nothing is known of what has changed; infinite before the first list.

        Where none of the resource's objects changes, a server may send nothing at all: a bookmark comes only once it
        knows of a newer version. So a watch that told nothing says nothing: whatever is in between may have swallowed
        it, or the server may be cut off from etcd. A list, which follows it, says what there is.
        """
        return float("inf") if self._contact is None else self._clock() - self._contact

    def tell(self, listener: Change[Kept]) -> None:
        """Tell of each change from now on, and of what there is already."""
        self._listeners.append(listener)
        for found in self._objects.values():
            listener(None, found)

    async def run(self) -> None:
        """Follow, until cancelled. What can't be read is asked for again; what is known stays until then."""
        while True:
            try:
                if not self._version or self.why_not:  # a watch could take another minute to tell anything
                    await self._list()
                await self._watch()
            except VersionGone as error:
                LOG.info("listing again", extra={"resource": self.name})
                self._version = ""
                if self._forgotten:  # and it does so at once: lists without a pause are more than it can bear
                    await self._pause(error)
                self._forgotten = True
            except (ApiAway, ApiRefused) as error:
                self.refused = isinstance(error, ApiRefused) and error.status == _FORBIDDEN
                await self._pause(error)

    async def _pause(self, error: GuardError) -> None:
        seconds = self._backoff.next_seconds()
        LOG.warning("can't follow", extra={"resource": self.name, "reason": str(error), "again_in": round(seconds, 1)})
        await asyncio.sleep(seconds)

    async def _list(self) -> None:
        begun = self._clock()
        items, version = await everything(self._api, self._resource, self._namespace, self._query, self._listed)
        found = dict(items)
        self._contact, self.refused = begun, False
        if not self._forgotten:
            self._backoff.reset()
        gone = self._objects.keys() - found.keys()
        for key in gone:
            self._set(key, "", None)
        for key, (its, item) in found.items():
            if self._versions.get(key) != its:
                self._set(key, its, item)
        self._version = version
        self.synced.set()

    def _listed(self, item: dict[str, Any]) -> tuple[Key, tuple[str, Kept]]:
        return _key(item), (version_of(item), self._keep(item))

    async def _watch(self) -> None:
        begun, before = self._clock(), self._version
        seconds = random.randint(_WATCH_SECONDS * 3 // 4, _WATCH_SECONDS)  # noqa: S311 - so that not all end at once
        try:
            async for event in self._api.watch(
                self._resource, self._namespace, self._query, version=self._version, seconds=seconds
            ):
                item = event["object"]
                if event["type"] != "BOOKMARK":
                    self._set(_key(item), version_of(item), None if event["type"] == "DELETED" else self._keep(item))
                if version_of(item) != self._version:
                    self._version = version_of(item)
                    self._heard(self._clock())
        finally:
            if self._clock() - begun >= _SHORT_SECONDS:
                self._forgotten = False
        if self._version != before:
            return
        if self._clock() - begun < _SHORT_SECONDS:
            raise ApiAway(f"watch {self._resource.path(self._namespace)}: it ended immediately")  # a server that stops
        LOG.info("listing again: the watch ended without an event", extra={"resource": self.name})
        self._version = ""

    def _heard(self, at: float) -> None:
        self._contact, self._forgotten = at, False
        self._backoff.reset()

    def _set(self, key: Key, version: str, after: Kept | None) -> None:
        before = self._objects.get(key)
        if after is None:
            self._objects.pop(key, None)
            self._versions.pop(key, None)
        else:
            self._objects[key], self._versions[key] = after, version
        for listener in self._listeners:
            listener(before, after)


def _key(item: Object) -> Key:
    meta = item["metadata"]
    return meta.get("namespace", ""), meta["name"]


def version_of(item: Object) -> str:
    """By which two states of an object are told apart; no order."""
    return str(item["metadata"]["resourceVersion"])
