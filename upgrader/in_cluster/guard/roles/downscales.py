"""Follows up on downscales that were allowed: the leader does this each time that it reconciles a group.

A downscale that can be seen is recorded as the set's last one, in the annotation `last-downscale`. One that never
happened, because another webhook denied it or the API server was unreachable, is forgotten after a while, and its pods
are told that they stay. The same is done for downscales that a process was about to prepare when it was killed, and for
pods that are wanted again after `replicas` was raised. A pod that doesn't answer is told again until it answers or is
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.core.group_lease import (
    GROUP,
    LAST,
    GroupLease,
    LeaseUnreadable,
    Preparing,
    read,
    seen_sets,
    told,
)
from upgrader.in_cluster.guard.core.prepare import endpoints, is_prepared
from upgrader.in_cluster.guard.core.rollout import GROUP_LABEL
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet, ordinal, stateful_set
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, GroupLocked, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.direct_read import pods_of, stateful_sets
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks
from upgrader.in_cluster.guard.roles.pod_preparation import addresses, failures, tell, uids
from upgrader.in_cluster.guard.roles.workload_cache import STATEFUL_SETS, Group
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["Downscales"]

_STAY_SECONDS = 10.0
_AGAIN_SECONDS = 30.0
"""After a pod couldn't be told; meanwhile other processes may lock the group."""
_HOLDER = "guard-downscales"
"""Holder of a group's lock: a new leader may take over the lock of the previous one."""


class Downscales:
    """Of the groups that are reconciled; used only by the leader."""

    def __init__(
        self, api: Api, locks: GroupLocks, leases: Informer[Object], calls: PodCalls, cluster_domain: str
    ) -> None:
        """`leases`: the Leases of all groups."""
        self._api, self._locks, self.leases = api, locks, leases
        self._calls, self._cluster_domain = calls, cluster_domain
        self._not_before: dict[Group, float] = {}

    def tell(self, changed: Callable[[Group], None]) -> None:
        """Call `changed` for each group whose Lease another process has written."""

        def changed_by(before: Object | None, after: Object | None) -> None:
            group = str(((after or before or {}).get("metadata") or {}).get("annotations", {}).get(GROUP) or "")
            namespace, slash, name = group.partition("/")
            if slash and _by_others(before, after):
                changed((namespace, name))

        self.leases.tell(changed_by)

    async def look(self, group: Group, sets: Sequence[StatefulSet], pods: Iterable[Pod]) -> None:
        """Follow up on one group, by the sets and pods of a cache. Failures never prevent the group's rollout."""
        if not self.leases.synced.is_set():
            return
        try:
            await self._look(group, sets, pods)
        except (Conflict, GroupLocked) as error:
            LOG.debug("another process has a group's lock", extra={"group": "/".join(group), "reason": str(error)})
        except (ApiAway, ApiRefused) as error:
            LOG.warning(
                "reconciling a group's downscales failed", extra={"group": "/".join(group), "reason": str(error)}
            )

    async def _look(self, group: Group, sets: Sequence[StatefulSet], pods: Iterable[Pod]) -> None:
        watched = {each.name for each in sets if is_prepared(each)}
        item = self.leases.objects.get(self._locks.key(group))
        if item is None and not watched:
            return
        held = self._locks.seen(group, item)
        if held.locked_by():
            return  # a write now would take the lock from its holder; the next reconciliation tries again
        lease, stay = seen_sets(held.lease, sets, pods, held.old, watched)
        if stay or _forgets(held.lease, lease):  # a cache may be stale: the API is asked what is gone
            if held.at < self._not_before.get(group, held.at):
                return
            lease = await self._stay(group, watched)
        elif lease != held.lease:
            await self._locks.write(held, lease)
        await self._show(sets, lease)

    async def _stay(self, group: Group, watched: set[str]) -> GroupLease:
        """Tell the pods while holding the group's lock, by the group's state then. Pods that can't be told are told
        again.
        """
        seen = await self._locks.look(group)
        held = await self._locks.take(seen, "pods are notified that they stay", holder=_HOLDER)
        try:
            namespace, name = group
            found = await stateful_sets(self._api, namespace, f"{GROUP_LABEL}={name}")
            pods = await pods_of(self._api, namespace, found)
            sets = {each.name: each for each in map(stateful_set, found)}
            lease, stay = seen_sets(held.lease, sets.values(), pods, held.old, watched)
            failed = dict[str, str]()
            for each in stay:
                failed = await self._told(sets[each.set], pods, each)
                lease = told(lease, each, sets[each.set], failed)
            self._not_before.pop(group, None)
            if failed:
                self._not_before[group] = held.at + _AGAIN_SECONDS
            held = await self._locks.write(held, GroupLease(None, lease.sets))
            return held.lease
        except BaseException:
            await self._locks.release(held)
            raise

    async def _told(self, which: StatefulSet, pods: Iterable[Pod], stay: Preparing) -> dict[str, str]:
        """The UIDs, by name, of the pods that exist and couldn't be told."""
        if not is_prepared(which):
            return {}  # no pod was told anything
        there = uids(which, pods)
        going = endpoints(which, stay.before, stay.after, self._cluster_domain)
        if isinstance(going, str):
            LOG.warning("pods can't be notified that they stay", extra={"set": which.name, "reason": going})
            numbers = range(which.first_ordinal + stay.after, which.first_ordinal + stay.before)
            return {name: uid for name, uid in there.items() if ordinal(name) in numbers}
        replies = await tell(self._calls, "DELETE", going, addresses(which, pods), _STAY_SECONDS)
        failed = failures(replies)
        for pod, why in failed.items():
            LOG.warning("a pod can't be notified that it stays", extra={"pod": pod, "reason": why})
        LOG.info(
            "prepared pods are notified that they stay", extra={"set": which.name, "pods": [each.pod for each in going]}
        )
        return {name: there[name] for name in failed if name in there}

    async def _show(self, sets: Iterable[StatefulSet], lease: GroupLease) -> None:
        """Write the annotation, which is only for display and for denials: other clients can write it too."""
        for each in sets:
            record = lease.sets.get(each.name)
            if record is None or record.last is None or record.uid != each.uid:
                continue
            shown = timestamp(record.last)
            if each.annotations.get(LAST) != shown:
                change = {"metadata": {"uid": each.uid, "annotations": {LAST: shown}}}
                try:
                    await self._api.patch(STATEFUL_SETS, each.name, change, each.namespace)
                except (NotFound, Conflict):
                    continue  # the set is gone, or another one has its name


def _forgets(before: GroupLease, after: GroupLease) -> bool:
    """Whether the prepared pods no longer exist, or a set is another one than the record's."""
    return any(
        before.sets[name].uid != record.uid or before.sets[name].prepared.keys() - record.prepared.keys()
        for name, record in after.sets.items()
        if name in before.sets
    )


def _by_others(before: Object | None, after: Object | None) -> bool:
    """Whether a webhook has changed the Lease, and not this role or a rollout, which reconcile again by themselves."""
    try:
        was, now = read(before), read(after)
    except LeaseUnreadable:
        return True
    released = was.lock is not None and now.lock is None and not was.lock.holder.startswith("guard-")
    return released or was.sets != now.sets
