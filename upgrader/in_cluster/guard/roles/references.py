"""The resources whose replicas StatefulSets follow: of any kind with a scale subresource."""

from __future__ import annotations

from upgrader.in_cluster.guard.core.scaling import Reference, reference_of
from upgrader.in_cluster.guard.core.workloads import StatefulSet
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["References"]


class References:
    """Reads each from the API; remembers only which kinds are served."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[tuple[str, str], Resource] = {}

    async def of(self, which: StatefulSet) -> Reference | str | None:
        """The replicas in spec and status of the set's reference, or why they can't be read; None without one."""
        wanted = reference_of(which)
        if wanted is None:
            return None
        version, kind, name = wanted
        try:
            resource = await self._resource(version, kind)
            if resource is None:
                return f"the API has no kind {kind} in version '{version}'"
            scale = await self._api.get(resource, name, which.namespace, subresource="scale")
        except (ApiAway, ApiRefused) as error:
            return str(error)
        if scale is None:
            return "it doesn't exist, or has no scale"
        found = (scale.get("spec") or {}).get("replicas", 0), (scale.get("status") or {}).get("replicas", 0)
        if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in found):
            return "its scale has no number of replicas"
        return Reference(*found)

    async def show(self, which: StatefulSet, replicas: int) -> None:
        """Write the set's replicas into its reference's status. Raises ApiAway, ApiRefused."""
        wanted = reference_of(which)
        resource = await self._resource(*wanted[:2]) if wanted else None
        if wanted and resource:
            change = {"status": {"replicas": replicas}}
            await self._api.patch(resource, wanted[2], change, which.namespace, subresource="status")

    async def _resource(self, version: str, kind: str) -> Resource | None:
        if (version, kind) not in self._known:
            if not version:
                return None
            for each in await self._api.kinds(version):
                if each.get("kind") == kind and "/" not in str(each.get("name")):
                    self._known[version, kind] = Resource(version, str(each["name"]))
        return self._known.get((version, kind))
