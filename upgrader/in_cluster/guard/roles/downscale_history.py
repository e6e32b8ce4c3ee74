"""When the sets of a group were last downscaled: by the group's Lease, and by rollout-operator's records.

rollout-operator records it in an annotation of each set, or with its zone tracker in a ConfigMap with a key for each
set. Both can only deny a downscale and never allow one, because other clients may write them. The ConfigMap is only
read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from upgrader.contract.times import seconds_of
from upgrader.in_cluster.guard.core.group_lease import NoTime, last_downscales
from upgrader.in_cluster.guard.core.workloads import StatefulSet
from upgrader.in_cluster.guard.guard_errors import GroupLocked
from upgrader.in_cluster.guard.roles.group_locks import Held
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["CONFIG_MAPS", "DownscaleHistory"]

CONFIG_MAPS = Resource("v1", "configmaps")


class DownscaleHistory:
    """`zone_tracker`: the name of the ConfigMap in each group's namespace; "" if rollout-operator had none."""

    def __init__(self, api: Api, zone_tracker: str = "") -> None:
        self._api, self._name = api, zone_tracker

    async def last(self, held: Held, sets: Iterable[StatefulSet]) -> dict[str, float]:
        """By the set's name, in seconds since the epoch.

        Raises ApiAway or ApiRefused, and GroupLocked if a record can't be read.
        """
        tracked = await self._tracked(held.group[0]) if self._name else {}
        try:
            return last_downscales(held.lease, sets, tracked)
        except NoTime as error:
            raise GroupLocked(f"{error}: fix or remove it") from None

    async def _tracked(self, namespace: str) -> dict[str, float]:
        found = await self._api.get(CONFIG_MAPS, self._name, namespace)
        data = (found or {}).get("data") or {}
        return {zone: self._time(namespace, zone, text) for zone, text in data.items()}

    def _time(self, namespace: str, zone: str, text: str) -> float:
        try:
            found = seconds_of(json.loads(text)["lastDownscaled"])
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        if found is None:
            what = f"the ConfigMap {namespace}/{self._name} doesn't say when {zone} was last downscaled"
            raise GroupLocked(f"{what}: fix or remove its key")
        return found
