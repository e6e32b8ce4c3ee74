"""The groups in the middle of a rollout: recorded before the first pod is deleted, until all pods are new.

The pods don't show it: a pod that was replaced because its node died has the new revision, too, and a group whose first
zone is done looks like one whose first zone had no new template. The record is an annotation of the Lease for leader
election, so that the next leader has it.
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
    """Used only by the leader."""

    def __init__(
        self, api: Api, namespace: str, lease: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._api, self._namespace, self._lease, self._sleep = api, namespace, lease, sleep
        self._known: frozenset[str] | None = None
        self._in_turn = asyncio.Lock()
        """Groups that are looked at together write the same record: what is known is what was written last."""

    def forget(self) -> None:
        """Another replica may have led since: the Lease is read again."""
        self._known = None

    async def all(self) -> frozenset[str]:
        """`NAMESPACE/GROUP` of each. Raises ApiAway, ApiRefused."""
        async with self._in_turn:
            return await self._all()

    async def left(self) -> frozenset[str]:
        """All groups, for a new leader: no other record has the groups that were deleted while there was no leader.

        Retries until the API answers, or until it is cancelled because leading ends.
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
        """Returns once it is recorded; raises ApiAway, ApiRefused."""
        async with self._in_turn:
            if group not in await self._all():
                await self._write(group, rolling=True)

    async def remove(self, group: str) -> None:
        """Returns once the record is removed; raises ApiAway, ApiRefused."""
        async with self._in_turn:
            if group in await self._all():
                await self._write(group, rolling=False)

    async def hold(self, group: str, lease: RunLease) -> Hold | None:
        """The run that is alive, with the groups that may be rolled out nevertheless: those that it names, and this one
        if it has begun. Raises ApiAway, ApiRefused if that isn't known: then it waits.
        """
        hold = lease.last  # a cached hold is enough for waiting; that no run holds must be read anew
        if hold is None or group in hold.groups:
            hold = await lease.look()
        if hold is not None and group not in hold.groups and group in await self.all():
            hold = replace(hold, groups=hold.groups | {group})
        return hold

    async def _all(self) -> frozenset[str]:
        if self._known is None:
            self._known = _noted(await self._read())
        return self._known

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
