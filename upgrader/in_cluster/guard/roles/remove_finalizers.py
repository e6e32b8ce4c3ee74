"""Before guard is uninstalled: removes its finalizer from every Deployment and PodProtector.

Only guard removes it. With it, a deleted Deployment, or its namespace, would stay forever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from upgrader.in_cluster.guard.core.generator import FINALIZER
from upgrader.in_cluster.guard.guard_errors import Conflict, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.generator import DEPLOYMENTS
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS
from upgrader.in_cluster.guard.runtime.api_client import JSON_PATCH, Api
from upgrader.in_cluster.guard.runtime.leadership import STANDS_DOWN_SECONDS, Leadership
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["FinalizerRemoval"]

_EVERY_SECONDS = 2.0
_META = ("namespace", "name", "uid", "resourceVersion", "finalizers", "deletionTimestamp")


class FinalizerRemoval:
    """For some namespaces, or for all. The generator can't lead meanwhile: it would add the finalizers again."""

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        leadership: Leadership,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._namespaces, self._leadership = api, namespaces or [""], leadership
        self._clock, self._sleep = clock, sleep
        self._released = 0

    async def run(self) -> int:
        """Until no object has the finalizer, and no generator that led before can add it; returns how many had it.

        Its Lease stays taken for some seconds, in which Helm deletes the generator. Raises ApiAway, ApiRefused.
        """
        begun = self._clock()
        await self._leadership.seize()
        while True:
            alone = self._clock() - begun > STANDS_DOWN_SECONDS
            if not await self._once() and alone:
                return self._released
            await self._sleep(_EVERY_SECONDS)
            await self._leadership.seize()

    async def _once(self) -> bool:
        """Whether any object had the finalizer."""
        found = False
        # The protectors first: a Deployment without its finalizer may be deleted, and leave its protector behind.
        for resource in (POD_PROTECTORS, DEPLOYMENTS):
            for namespace in self._namespaces:
                objects, _ = await everything(self._api, resource, namespace, {}, _marked)
                for meta in filter(None, objects):
                    found = True
                    await self._release(resource, meta)
        return found

    async def _release(self, resource: Resource, meta: dict[str, Any]) -> None:
        """An object that has changed meanwhile is handled in the next round."""
        name, namespace = meta["name"], meta["namespace"]
        left = [each for each in meta["finalizers"] if each != FINALIZER]
        try:
            if resource is DEPLOYMENTS:
                at = {"op": "replace", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
                change = {"op": "add", "path": "/metadata/finalizers", "value": left}
                await self._api.patch(resource, name, [at, change], namespace, content_type=JSON_PATCH)
            elif item := await self._api.get(resource, name, namespace):
                made = {**item["metadata"], "resourceVersion": meta["resourceVersion"], "finalizers": left}
                await self._api.replace(resource, {**item, "metadata": made}, namespace)
                if not meta.get("deletionTimestamp"):
                    await self._api.delete(resource, name, namespace, uid=meta["uid"])
        except (Conflict, NotFound):
            return
        self._released += 1
        LOG.info("released", extra={"kind": resource.plural, "object": f"{namespace}/{name}"})


def _marked(item: dict[str, Any]) -> dict[str, Any] | None:
    """What is needed of an object that has the finalizer."""
    meta = item["metadata"]
    return {key: meta.get(key) for key in _META} if FINALIZER in (meta.get("finalizers") or ()) else None
