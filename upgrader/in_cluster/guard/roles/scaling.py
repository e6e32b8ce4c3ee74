"""Gives the sets of a group as many replicas as their leader set has, or the resource that they follow; done by the
leader, one set at a time.

A set whose pods are prepared is scaled through the webhook, like any other client's request: the webhook locks the
group, asks the pods, and may deny it. For any other set, the downscale is recorded in the group's Lease here, before it
is done. A downscale is decided again by what the API itself has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from upgrader.in_cluster.guard.core.delayed_downscale import Endpoint, calls, delay_of, reached
from upgrader.in_cluster.guard.core.group_lease import GroupLease, Preparing, given_up, unseen, with_open
from upgrader.in_cluster.guard.core.prepare import is_prepared
from upgrader.in_cluster.guard.core.rollout import GROUP_LABEL, Event, Hold
from upgrader.in_cluster.guard.core.scaling import LEADER, NotScaled, Reference, Wish, decide, reference_of, writes_back
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet, stateful_set
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, GroupLocked, NotNow
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.direct_read import stateful_sets
from upgrader.in_cluster.guard.roles.downscale_history import DownscaleHistory
from upgrader.in_cluster.guard.roles.event_recorder import EventRecorder
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks, Held
from upgrader.in_cluster.guard.roles.pod_preparation import addresses, tell
from upgrader.in_cluster.guard.roles.references import References
from upgrader.in_cluster.guard.roles.workload_cache import STATEFUL_SETS, Group
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls

__all__ = ["Scaling"]

_ASKED_SECONDS = 5.0
_STAY_SECONDS = 20.0
_FEWEST_SECONDS = 5.0
"""The shortest time between two notices to pods that they stay."""

_Seen = Mapping[str, Reference | str]


class Scaling:
    """Of the groups that are reconciled; used only by the leader."""

    def __init__(
        self,
        api: Api,
        locks: GroupLocks,
        pods: PodCalls,
        cluster_domain: str,
        history: DownscaleHistory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._locks, self._calls, self._cluster_domain = api, locks, pods, cluster_domain
        self._history, self._clock = history, clock
        self._references, self._events = References(api), EventRecorder(api)
        self._told: dict[str, float] = {}
        self._telling = set[asyncio.Task[None]]()

    async def look(
        self, group: Group, sets: Sequence[StatefulSet], pods: Sequence[Pod], hold: Callable[[], Awaitable[Hold | None]]
    ) -> bool:
        """Whether a set has another number of replicas now: then nothing else is done in this reconciliation.

        `hold`: the run that is alive, which is asked before a downscale. Failures never prevent the group's rollout.
        """
        if not any(LEADER in each.annotations or reference_of(each) for each in sets):
            return False
        try:
            return await self._look(group, sets, pods, hold)
        except (ApiAway, ApiRefused, GroupLocked) as error:
            LOG.warning("a group isn't scaled", extra={"group": "/".join(group), "reason": str(error)})
            return False

    async def _look(
        self, group: Group, sets: Sequence[StatefulSet], pods: Sequence[Pod], hold: Callable[[], Awaitable[Hold | None]]
    ) -> bool:
        seen = {each.name: found for each in sets if (found := await self._references.of(each)) is not None}
        held = await self._locks.look(group)
        decision = decide(sets, seen, await self._history.last(held, sets), self._locks.now())
        for event in decision.events:
            await self._events.record(event)
        for wish in decision.wishes:
            try:
                replicas = await self._had(group, wish, pods, seen, hold)
            except (NotScaled, ApiRefused, GroupLocked) as error:
                await self._events.record(Event(wish.set, "Warning", "NotScaled", str(error)))
                await self._show(wish, wish.set.replicas, seen)
                continue
            if replicas != wish.set.replicas:
                which = wish.set
                message = f"replicas of {which.name} go from {which.replicas} to {replicas}"
                await self._events.record(Event(which, "Normal", "Scaled", message))
                await self._show(wish, replicas, seen)
                return True
        for each in decision.write_back:
            await self._references.show(each.set, each.replicas)
        for which in decision.staying:
            self._stay(which, pods)
        return False

    async def _had(
        self,
        group: Group,
        wish: Wish,
        pods: Sequence[Pod],
        seen: _Seen,
        hold: Callable[[], Awaitable[Hold | None]],
    ) -> int:
        """The set's new number of replicas. Raises NotScaled, ApiRefused, GroupLocked if it can't be changed."""
        which, replicas = wish.set, wish.replicas
        noted: tuple[Held, GroupLease] | None = None
        if replicas > which.replicas:
            if wish.by_reference:
                self._stay(which, pods)
        else:
            if run := await hold():
                raise NotScaled(f"the upgrade {run.run} holds the group {group[1]}")
            if wish.by_reference:
                replicas = await self._prepared_for_long(which, replicas, pods)
            held = await self._still_wanted(group, wish, seen)
            if held is None:
                return which.replicas
            if not is_prepared(which):
                before = given_up(held.lease, held.old)
                note = with_open(before, which, Preparing(which.name, which.replicas, replicas), self._locks.now())
                noted = await self._locks.write(held, note), before
        change = {"spec": {"replicas": replicas}}
        try:
            await self._api.patch(STATEFUL_SETS, which.name, change, which.namespace, subresource="scale")
        except (NotNow, ApiRefused):
            if noted:
                await self._take_back(*noted)
            raise
        return replicas

    async def _take_back(self, noted: Held, before: GroupLease) -> None:
        """The downscale was refused: until it is seen, which may never be, no other set of the group would change."""
        try:
            await self._locks.write(noted, before)
        except (ApiAway, ApiRefused, GroupLocked) as error:
            extra = {"group": "/".join(noted.group), "reason": str(error)}
            LOG.warning("the note of a refused downscale can't be removed, and expires", extra=extra)

    async def _still_wanted(self, group: Group, wish: Wish, seen: _Seen) -> Held | None:
        """The group's Lease, if the API still shows the same number, and no other process has the group's lock."""
        held = await self._locks.look(group)
        found = await stateful_sets(self._api, group[0], f"{GROUP_LABEL}={group[1]}")
        sets = tuple(map(stateful_set, found))
        again = decide(sets, seen, await self._history.last(held, sets), self._locks.now())
        if (wish.set.uid, wish.set.replicas, wish.replicas) not in [
            (each.set.uid, each.set.replicas, each.replicas) for each in again.wishes
        ]:
            return None
        others = [each for each in sets if each.uid != wish.set.uid]
        if locked := held.locked_by() or min(unseen(held.lease, others, held.old).values(), default=""):
            raise GroupLocked(f"{wish.set.name} is not scaled, because its group is locked: {locked}")
        return held

    async def _prepared_for_long(self, which: StatefulSet, wanted: int, pods: Iterable[Pod]) -> int:
        """How many replicas it may have by the answers of its pods. Raises NotScaled."""
        delay = delay_of(which)
        if delay is None:
            return wanted
        asked = calls(which, wanted, delay, self._cluster_domain)
        ips = addresses(which, pods)
        self._tell(which, asked.delete, ips)
        replies = await tell(self._calls, "POST", asked.post, ips, _ASKED_SECONDS)
        by_ordinal = {each.ordinal: replies[each.pod] for each in asked.post}
        return reached(which, wanted, delay, by_ordinal, self._locks.now())

    def _stay(self, which: StatefulSet, pods: Iterable[Pod]) -> None:
        """Tell all its pods that they stay: fewer replicas may have been requested before, which isn't recorded."""
        try:
            delay = delay_of(which)
            everyone = calls(which, which.replicas, delay, self._cluster_domain).delete if delay else ()
        except NotScaled:
            return  # its pods are told if fewer replicas are requested
        self._tell(which, everyone, addresses(which, pods))

    def _tell(self, which: StatefulSet, staying: Sequence[Endpoint], ips: Mapping[str, str]) -> None:
        """In the background, and at intervals: the answers don't matter."""
        now = self._clock()
        if not staying or now - self._told.get(which.uid, -_FEWEST_SECONDS) < _FEWEST_SECONDS:
            return
        self._told = {uid: at for uid, at in self._told.items() if now - at < _FEWEST_SECONDS} | {which.uid: now}
        task = asyncio.ensure_future(self._deleted(staying, ips))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _deleted(self, staying: Sequence[Endpoint], ips: Mapping[str, str]) -> None:
        await tell(self._calls, "DELETE", staying, ips, _STAY_SECONDS)

    async def _show(self, wish: Wish, replicas: int, seen: _Seen) -> None:
        """Write it to the reference's status, unless it is there already."""
        found = seen.get(wish.set.name)
        if not wish.by_reference or not isinstance(found, Reference) or not writes_back(wish.set):
            return
        if found.status_replicas != replicas:
            await self._references.show(wish.set, replicas)
