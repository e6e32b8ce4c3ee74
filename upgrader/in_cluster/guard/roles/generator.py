"""Creates, updates and deletes the PodProtectors of Deployments, as `core.generator` decides.

Caches trigger a reconciliation. The decision itself uses what the API has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upgrader.in_cluster.guard.core.generator import (
    FINALIZER,
    RELEASE,
    REMOVE_CELL_ONCE,
    Work,
    belongs_to,
    cells_to_remove,
    conditions,
    protector_name,
    wanted,
    work,
)
from upgrader.in_cluster.guard.core.protector_object import InvalidProtector, status
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, ProtectorCache
from upgrader.in_cluster.guard.runtime.api_client import JSON_PATCH, Api
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.informer import Informer, Key
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics
from upgrader.in_cluster.guard.runtime.resource import Object, Resource
from upgrader.in_cluster.guard.runtime.work_queue import WorkQueue

__all__ = ["DEPLOYMENTS", "Generator"]

DEPLOYMENTS = Resource("apps/v1", "deployments")
_AT_ONCE = 4
"""Deployments that are looked at together: requests for one namespace's may take long."""


class Generator:
    """For the Deployments of some namespaces, or of all of them."""

    def __init__(
        self,
        api: Api,
        protectors: ProtectorCache,
        namespaces: Sequence[str],
        protected: Selector,
        leadership: Leadership,
        metrics: ProtectorMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._protected, self._leadership = api, protected, leadership
        self._metrics, self._now = metrics, now
        self._queue = WorkQueue[Key](at_once=_AT_ONCE)
        self._failing: dict[Key, Backoff] = {}
        self._of_people = set[str]()
        self._protectors = protectors
        protectors.tell(self._protector_changed)
        self._informers = {each: Informer(api, DEPLOYMENTS, each, keep=_kept) for each in namespaces or [""]}
        self.deployments = list(self._informers.values())
        for informer in self.deployments:
            informer.tell(self._deployment_changed)

    async def run(self) -> None:
        """Lead, and reconcile what has changed, until cancelled."""
        await self._leadership.lead(self._work)

    async def _work(self) -> None:
        with self._metrics.leading("generator"):
            async with asyncio.TaskGroup() as begun:
                for namespace in self._informers:
                    begun.create_task(self._begin(namespace))
                await self._queue.each(self._look_at)

    async def _begin(self, namespace: str) -> None:
        """If one namespace can't be listed, as its administrator has taken guard's rights away, the others continue."""
        for informer in self._both(namespace):
            await informer.synced.wait()
        for key in self._informers[namespace].objects:
            self._queue.add(key)
        for held in self._protectors:
            if namespace in ("", held.protector.namespace):
                self._protector_changed((held.protector.namespace, held.protector.name))

    def _both(self, namespace: str) -> tuple[Informer[Any], ...]:
        """The caches of a namespace, or of all."""
        where = namespace if namespace in self._informers else ""
        return self._protectors.followed[where], self._informers[where]

    def _deployment_changed(self, before: Object | None, after: Object | None) -> None:
        found: Any = after or before
        self._queue.add((found["metadata"].get("namespace", ""), found["metadata"]["name"]))

    def _protector_changed(self, key: Key) -> None:
        """Queue its Deployment, and the protector itself, which may have no Deployment."""
        held = self._protectors.get(key)
        if held is not None:
            self._queue.add((key[0], f"/{key[1]}"))
        name = key[1].removeprefix("deployment-")
        if name != key[1]:
            self._queue.add((key[0], name))

    async def _look_at(self, key: Key) -> None:
        if not all(informer.synced.is_set() for informer in self._both(key[0])):
            return
        begun, error = time.monotonic(), ""
        try:
            if key[1].startswith("/"):
                await self._forget_cells((key[0], key[1][1:]))
            else:
                await self._reconcile(key)
            self._failing.pop(key, None)
        except (ApiAway, ApiRefused, InvalidProtector) as failed:
            error = type(failed).__name__
            seconds = self._failing.setdefault(key, Backoff()).next_seconds()
            if not isinstance(failed, Conflict):
                LOG.warning("reconciling a PodProtector failed", extra={"of": "/".join(key), "reason": str(failed)})
            self._queue.add(key, seconds)
        except Exception as failed:  # noqa: BLE001 - one that surprises, of one namespace, ends nothing for all others
            error = type(failed).__name__
            LOG.exception("reconciling a PodProtector failed unexpectedly", extra={"of": "/".join(key)})
            self._queue.add(key, self._failing.setdefault(key, Backoff()).next_seconds())
        finally:
            self._metrics.generator.labels(error).observe(time.monotonic() - begun)

    async def _reconcile(self, key: Key) -> None:
        """Raises ApiAway, ApiRefused, InvalidProtector."""
        namespace, name = key
        cached = next((found for each in self.deployments if (found := each.objects.get(key))), None)
        held = self._protectors.get((namespace, protector_name(name)))
        protector = held.item if held else None
        if not self._due(name, cached, protector):
            return
        deployment = await self._api.get(DEPLOYMENTS, name, namespace)
        protector = await self._api.get(POD_PROTECTORS, protector_name(name), namespace)
        todo = self._todo(name, deployment, protector)
        if todo.add_source_finalizer and deployment is not None:
            await self._finalizers(deployment, lambda there: [*there, FINALIZER])
        if todo.create and deployment is not None:
            protector = await self._create(deployment)
        if todo.update and deployment is not None and protector is not None:
            protector = await self._update(deployment, protector)
        if todo.release and protector is not None:
            await self._release(protector)
            protector = None
        if todo.remove_source_finalizer and deployment is not None:
            await self._finalizers(deployment, lambda there: [each for each in there if each != FINALIZER])
        if protector is not None and (todo.orphaned or deployment is not None):
            await self._tell(deployment, protector)

    def _todo(self, name: str, deployment: Object | None, protector: Object | None) -> Work:
        """A protector that a user created under its name stays unchanged, and counts as the Deployment's."""
        own = protector if protector is not None and belongs_to(protector, name) else None
        found = work(deployment, own, self._protected, others_protect=own is not None and self._others_protect(own))
        if not found.create or protector is None:
            return found
        if _name(protector) not in self._of_people:
            self._of_people.add(_name(protector))
            LOG.warning(
                "guard didn't create this PodProtector, which has the name that a Deployment's would get: it is left "
                "unchanged",
                extra={"protector": _name(protector)},
            )
        return Work()

    def _others_protect(self, protector: Object) -> bool:
        try:
            mine = self._protectors.read(protector)
        except InvalidProtector:  # how many pods it keeps isn't known; it is corrected, if its Deployment is there
            return False
        return any(
            held.protector.selector == mine.selector
            and held.protector.name != mine.name
            and held.protector.min_available >= mine.min_available
            and not held.item["metadata"].get("deletionTimestamp")
            for held in self._protectors
            if held.protector.namespace == mine.namespace
        )

    def _due(self, name: str, deployment: Object | None, protector: Object | None) -> bool:
        if self._todo(name, deployment, protector) not in (Work(), Work(orphaned=True)):
            return True
        own = protector is not None and belongs_to(protector, name)
        return own and protector is not None and self._conditions(deployment, protector) is not None

    def _conditions(self, deployment: Object | None, protector: Object) -> list[Mapping[str, Any]] | None:
        """The status conditions to be written; None if they are up to date."""
        target = wanted(deployment, self._protected, protector) if deployment is not None else None
        if deployment is not None and target is None:
            return None
        before = list((protector.get("status") or {}).get("conditions") or ())
        after = conditions(before, target, self._now())
        return None if after == before else after

    async def _tell(self, deployment: Object | None, protector: Object) -> None:
        changed = self._conditions(deployment, protector)
        if changed is None:
            return
        content = status(self._protectors.read(protector), protector.get("status"))
        made = {**protector, "status": {**content, "conditions": changed}}
        await self._replace(made, subresource="status")
        if deployment is None:
            LOG.warning(
                "a Deployment is gone without a deletion: its PodProtector stays",
                extra={
                    "protector": _name(protector),
                    "remedy": "apply the Deployment again, with as many replicas as before",
                },
            )

    async def _create(self, deployment: Object) -> Object:
        target = wanted(deployment, self._protected)
        assert target is not None
        meta = {
            "name": target.name,
            "namespace": target.namespace,
            "labels": target.labels,
            "annotations": target.annotations,
            "finalizers": [FINALIZER],
        }
        manifest = {"apiVersion": POD_PROTECTORS.api_version, "kind": "PodProtector", "metadata": meta}
        self._sure()
        made = await self._api.create(POD_PROTECTORS, {**manifest, "spec": target.spec}, target.namespace)
        LOG.info("PodProtector created", extra={"protector": _name(made), "min_available": target.spec["minAvailable"]})
        return made

    async def _update(self, deployment: Object, protector: Object) -> Object:
        target = wanted(deployment, self._protected, protector)
        assert target is not None
        meta = protector["metadata"]
        notes = {key: value for key, value in (meta.get("annotations") or {}).items() if key != RELEASE}
        finalizers = list(meta.get("finalizers") or ())
        if FINALIZER not in finalizers and not meta.get("deletionTimestamp"):
            finalizers.append(FINALIZER)
        made: Object = {
            **protector,
            "metadata": {
                **meta,
                "labels": {**(meta.get("labels") or {}), **target.labels},
                "annotations": {**notes, **target.annotations},
                "finalizers": finalizers,
            },
            "spec": {**(protector.get("spec") or {}), **target.spec},
        }
        found = await self._replace(made)
        LOG.info("PodProtector updated", extra={"protector": _name(made), "min_available": target.spec["minAvailable"]})
        return found

    async def _release(self, protector: Object) -> None:
        meta = protector["metadata"]
        left = [each for each in meta.get("finalizers") or () if each != FINALIZER]
        try:
            if len(left) != len(meta.get("finalizers") or ()):
                await self._replace({**protector, "metadata": {**meta, "finalizers": left}})
            if not meta.get("deletionTimestamp"):
                self._sure()
                await self._api.delete(POD_PROTECTORS, meta["name"], meta["namespace"], uid=meta["uid"])
        except NotFound:
            pass
        LOG.info("PodProtector released", extra={"protector": _name(protector)})

    async def _finalizers(self, deployment: Object, change: Callable[[list[str]], list[str]]) -> None:
        meta = deployment["metadata"]
        after = change(list(meta.get("finalizers") or ()))
        at = {"op": "replace", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
        operation = {"op": "add", "path": "/metadata/finalizers", "value": after}
        self._sure()
        try:
            await self._api.patch(
                DEPLOYMENTS, meta["name"], [at, operation], meta["namespace"], content_type=JSON_PATCH
            )
        except NotFound:
            return  # it is gone, and nothing holds it any more

    async def _forget_cells(self, key: Key) -> None:
        """Remove the cells that `remove-cell-once` names: first from the status, then the annotation itself."""
        held = self._protectors.get(key)
        if held is None or not cells_to_remove(held.item):
            return
        item = await self._api.get(POD_PROTECTORS, key[1], key[0])
        names = cells_to_remove(item) if item is not None else frozenset()
        if item is None or not names:
            return
        before = self._protectors.read(item)
        after = before.without_cells(names)
        if after != before:
            item = await self._replace({**item, "status": status(after, item.get("status"))}, subresource="status")
        meta = item["metadata"]
        left = {key: value for key, value in (meta.get("annotations") or {}).items() if key != REMOVE_CELL_ONCE}
        await self._replace({**item, "metadata": {**meta, "annotations": left}})
        LOG.info("cells forgotten", extra={"protector": "/".join(key), "cells": sorted(names)})

    async def _replace(self, manifest: Object, *, subresource: str = "") -> Object:
        self._sure()
        return await self._api.replace(
            POD_PROTECTORS, manifest, manifest["metadata"]["namespace"], subresource=subresource
        )

    def _sure(self) -> None:
        if not self._leadership.sure():
            raise ApiAway("this replica may have lost leadership")


def _name(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


_META = (
    "namespace",
    "name",
    "uid",
    "resourceVersion",
    "labels",
    "finalizers",
    "deletionTimestamp",
)


def _kept(item: dict[str, Any]) -> Object:
    """Without its template."""
    spec = {key: value for key, value in item["spec"].items() if key != "template"}
    return {"metadata": {key: item["metadata"][key] for key in _META if key in item["metadata"]}, "spec": spec}
