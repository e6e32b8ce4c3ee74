"""Which groups are in the middle of a rollout: noted before the first pod goes, until all are new.

Pods don't tell: one that was replaced because its node died has the new revision, too, and a group whose first zone is
done looks like one whose first zone had no new template. It is an annotation of the Lease by which the replicas elect
who rolls, so that whoever leads next knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from upgrader.in_cluster.guard.core.rollout import Hold
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.run_lease import LEASES, RunLease
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["ROLLING", "RollingGroups"]

ROLLING = "guard.upgrader.io/rolling"
_WRITES = 5
"""The leader renews the same Lease every two seconds."""


class RollingGroups:
    """Used by the replica that leads, alone."""

    def __init__(
        self, api: Api, namespace: str, lease: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._api, self._namespace, self._lease, self._sleep = api, namespace, lease, sleep
        self._known: frozenset[str] | None = None

    def forget(self) -> None:
        """Another replica may have led since: the Lease is read again."""
        self._known = None

    async def all(self) -> frozenset[str]:
        """`NAMESPACE/GROUP` of each. Raises ApiAway, ApiRefused."""
        if self._known is None:
            self._known = _noted(await self._read())
        return self._known

    async def left(self) -> frozenset[str]:
        """All groups, for a new leader: no other record has the groups that were deleted while there was no leader.

        Asks until the API answers, or it is cancelled, as it is when leading ends.
        """
        backoff = Backoff()
        while True:
            try:
                return await self.all()
            except (ApiAway, ApiRefused) as error:
                LOG.warning(
                    "the record of active rollouts can't be read", extra={"lease": self._lease, "reason": str(error)}
                )
                await self._sleep(backoff.next_seconds())

    async def add(self, group: str) -> None:
        """Returns once it is noted; raises ApiAway, ApiRefused."""
        if group not in await self.all():
            await self._write(group, rolling=True)

    async def remove(self, group: str) -> None:
        """The same the other way round."""
        if group in await self.all():
            await self._write(group, rolling=False)

    async def hold(self, group: str, lease: RunLease) -> Hold | None:
        """The run that is alive, with what may roll nevertheless: the groups that it names, and this one if it has
        begun. Raises ApiAway, ApiRefused where that can't be known: then it waits.
        """
        hold = lease.last  # that a run holds was true a moment ago, which does for waiting; that none does must be true
        if hold is None or group in hold.groups:
            hold = await lease.look()
        if hold is not None and group not in hold.groups and group in await self.all():
            hold = replace(hold, groups=hold.groups | {group})
        return hold

    async def _write(self, group: str, *, rolling: bool) -> None:
        for left in reversed(range(_WRITES)):
            found = await self._read()
            groups = _noted(found) | {group} if rolling else _noted(found) - {group}
            metadata = found["metadata"]
            notes = {**(metadata.get("annotations") or {}), ROLLING: ",".join(sorted(groups))}
            try:
                await self._api.replace(
                    LEASES, {**found, "metadata": {**metadata, "annotations": notes}}, self._namespace
                )
            except Conflict:
                if not left:
                    raise
                continue
            self._known = groups
            return

    async def _read(self) -> Object:
        found = await self._api.get(LEASES, self._lease, self._namespace)
        if found is None:
            raise ApiAway(f"the Lease {self._namespace}/{self._lease} doesn't exist")
        return found


def _noted(lease: Object) -> frozenset[str]:
    notes = lease["metadata"].get("annotations") or {}
    return frozenset(filter(None, str(notes.get(ROLLING) or "").split(",")))
