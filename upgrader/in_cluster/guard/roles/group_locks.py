"""The Leases of groups, in guard's own namespace: read, locked, and written with the resourceVersion that was read."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from upgrader.in_cluster.guard.core.group_lease import (
    LABEL,
    VALID_SECONDS,
    GroupLease,
    LeaseUnreadable,
    Lock,
    Preparing,
    Waiting,
    locked,
    manifest,
    name_of,
    read,
    waiting,
)
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, GroupLocked
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.run_lease import LEASES
from upgrader.in_cluster.guard.roles.workload_cache import Group
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer, Key, whole
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["GroupLocks", "Held", "leases_of_groups"]

_MARGIN_SECONDS = 15.0
"""A lock's holder stops this long before another process may take the lock over."""
_AGAIN_SECONDS = (0.1, 0.2)
_WRITES = 5
_RELEASE_SECONDS = 2.0


@dataclass(frozen=True)
class Held:
    """A group's Lease as it was last read or written. `old`: the entries that stayed unchanged for long enough."""

    group: Group
    item: Object | None
    lease: GroupLease
    old: frozenset[Waiting]
    at: float
    """When that read or write began, by the clock of this process."""
    mine: str = ""
    """The holder name under which this process has the lock; "" if it doesn't have it."""

    def locked_by(self, holder: str = "") -> str:
        """The other holder of the lock, as a sentence's subject; "" if there is none."""
        lock = self.lease.lock
        if lock is None or lock.holder in (holder, self.mine) or ("lock", lock.holder, lock.renewed) in self.old:
            return ""
        return lock.why


class GroupLocks:
    """The locks as this process sees them, and when it first saw each lock and each open downscale."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._namespace, self._clock, self.now = api, namespace, clock, now
        self._since: dict[Group, dict[Waiting, float]] = {}

    def key(self, group: Group) -> Key:
        """The key of its Lease in a cache."""
        return self._namespace, name_of(*group)

    async def look(self, group: Group) -> Held:
        """The present Lease. Raises ApiAway, ApiRefused; GroupLocked if its content can't be read."""
        begun = self._clock()
        return self.seen(group, await self._api.get(LEASES, name_of(*group), self._namespace), begun)

    def seen(self, group: Group, item: Object | None, begun: float | None = None) -> Held:
        """The same from a Lease that was already read, at `begun` of this process' clock."""
        at = self._clock() if begun is None else begun
        try:
            lease = read(item)
        except LeaseUnreadable as error:
            what = f"the Lease {self._namespace}/{name_of(*group)} can't be read: {error}; delete it"
            raise GroupLocked(what) from error
        patience, known = waiting(lease), self._since.get(group, {})
        since = {each: known.get(each, at) for each in patience}
        if since:
            self._since[group] = since
        else:
            self._since.pop(group, None)
        old = frozenset(each for each, seconds in patience.items() if at - since[each] >= seconds)
        return Held(group, item, lease, old, at)

    async def take(self, held: Held, why: str, *, holder: str = "", preparing: Preparing | None = None) -> Held:
        """Lock it, unless another process has done so since it was read. `holder` may take its own lock again.

        Raises Conflict if another process has written it, GroupLocked if another process has locked it, ApiAway,
        ApiRefused.
        """
        if other := held.locked_by(holder):
            raise GroupLocked(other)
        lock = Lock(holder or str(uuid.uuid4()), why, preparing)
        return replace(await self.write(held, locked(held.lease, lock, held.old)), mine=lock.holder)

    async def write(self, held: Held, lease: GroupLease) -> Held:
        """Write it with the resourceVersion that was read. Raises as `take` does."""
        begun = self._clock()
        content = manifest(self._namespace, held.group, held.item, lease, self.now())
        if held.item is None:
            written = await self._api.create(LEASES, content, self._namespace)
        else:
            written = await self._api.replace(LEASES, content, self._namespace)
        return self.seen(held.group, written, begun)

    def sure(self, held: Held) -> bool:
        """Whether no other process can have taken over the lock since it was written."""
        return self._clock() - held.at < VALID_SECONDS - _MARGIN_SECONDS

    async def release(self, held: Held) -> None:
        """Release the lock; if that fails, other processes may take it over after a while."""
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self.write(held, replace(held.lease, lock=None))
        except (ApiAway, ApiRefused, GroupLocked, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            LOG.warning("a group's lock can't be released", extra={"group": "/".join(held.group), "reason": reason})

    @asynccontextmanager
    async def locked(self, group: Group, why: str, *, holder: str) -> AsyncIterator[Held]:
        """Holds the lock until the end of the block. Raises as `take` does, except Conflict."""
        held = await self._taken(group, why, holder)
        try:
            yield held
        finally:
            await self.release(held)

    async def _taken(self, group: Group, why: str, holder: str) -> Held:
        for left in reversed(range(_WRITES)):
            try:
                return await self.take(await self.look(group), why, holder=holder)
            except Conflict:
                if not left:
                    break
                await asyncio.sleep(random.uniform(*_AGAIN_SECONDS))  # noqa: S311 - so that two don't meet again
        raise GroupLocked("other clients keep changing its Lease")


def leases_of_groups(api: Api, namespace: str) -> Informer[Object]:
    """A cache of the Leases."""
    return Informer(api, LEASES, namespace, keep=whole, labels=f"{LABEL}=group")
