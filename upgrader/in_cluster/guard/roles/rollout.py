"""Rolls out groups of StatefulSets, one set after the other: the leader does what `core.rollout` decides.

Caches trigger a reconciliation. Before a pod is deleted, the group is locked, which prevents downscales of its sets
meanwhile, read from the API itself, and decided again: a cache may not show yet what another leader has just done. The
Lease of a run of the upgrader, which holds groups that haven't begun, is read again as well.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from upgrader.in_cluster.guard.core.group_lease import unseen
from upgrader.in_cluster.guard.core.ledger import OF_ROLLOUTS
from upgrader.in_cluster.guard.core.rollout import (
    GROUP_LABEL,
    Deletion,
    Event,
    Finished,
    GroupDecision,
    Hold,
    Phase,
    decide,
)
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet, stateful_set
from upgrader.in_cluster.guard.core.zone_budget import Rollout
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, GroupLocked, NotFound, NotNow
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.direct_read import pods_of, stateful_sets
from upgrader.in_cluster.guard.roles.downscales import Downscales
from upgrader.in_cluster.guard.roles.event_recorder import EventRecorder
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks, Held
from upgrader.in_cluster.guard.roles.rolling_groups import RollingGroups
from upgrader.in_cluster.guard.roles.run_lease import RunLease
from upgrader.in_cluster.guard.roles.scaling import Scaling
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS, Group, WorkloadCache
from upgrader.in_cluster.guard.roles.zone_budget_books import RolloutRequest
from upgrader.in_cluster.guard.roles.zone_budgets import ZoneBudgets
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.resource import Object
from upgrader.in_cluster.guard.runtime.work_queue import WorkQueue

__all__ = ["Rollouts"]

_AT_ONCE = 8
"""Groups that are looked at together: of one that scales by the answers of its pods, a look takes as long as these."""
_HOLDER = "guard-rollout"
"""Holder of a group's lock: a new leader may take over the lock of the previous one, which has stopped by then."""


class Rollouts:
    """For the groups in some namespaces."""

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        leadership: Leadership,
        metrics: Metrics,
        interval_seconds: float,
        *,
        locks: GroupLocks,
        downscales: Downscales | None = None,
        scaling: Scaling | None = None,
        budgets: ZoneBudgets | None = None,
        holds: tuple[RunLease, RollingGroups] | None = None,
    ) -> None:
        """`interval_seconds`: each group is reconciled after that, even without an event. `budgets` are asked before
        each deletion, in their namespaces. `holds`: the runs that still hold groups, and the groups that have begun;
        None: no run does. `locks`: keeps a group's downscales and its rollout apart. `downscales`: follows up on those
        that were allowed; `scaling`: lets sets follow others.
        """
        self._api, self._leadership, self._metrics = api, leadership, metrics
        self._interval_seconds, self._budgets, self._holds = interval_seconds, budgets, holds
        self._locks, self._downscales, self._scaling = locks, downscales, scaling
        self._events = EventRecorder(api)
        self._queue = WorkQueue[Group](at_once=_AT_ONCE)
        self._failing: dict[Group, Backoff] = {}
        self.caches = {each: WorkloadCache(api, each, self._queue.add) for each in namespaces}
        if downscales:
            downscales.tell(self._downscaled)

    def _downscaled(self, group: Group) -> None:
        if group[0] in self.caches:
            self._queue.add(group)

    async def run(self) -> None:
        """Lead, and reconcile each group that has changed, until cancelled."""
        await self._leadership.lead(self._work)

    async def _work(self) -> None:
        if self._holds:
            self._holds[1].forget()
        async with asyncio.TaskGroup() as begun:
            for namespace, cache in self.caches.items():
                begun.create_task(self._begin(namespace, cache))
            await self._queue.each(self._look_at)

    async def _begin(self, namespace: str, cache: WorkloadCache) -> None:
        """If one namespace can't be listed, the others continue."""
        for informer in cache.informers:
            await informer.synced.wait()
        for group in cache.groups():
            self._queue.add(group)
        for text in await self._holds[1].left() if self._holds else ():
            if text.startswith(f"{namespace}/"):
                self._queue.add((namespace, text.removeprefix(f"{namespace}/")))

    async def _look_at(self, group: Group) -> None:
        begun, name = time.monotonic(), group[1]
        self._metrics.reconciles.labels(name).inc()
        try:
            there = await self._reconcile(group)
        except (ApiAway, ApiRefused) as error:
            self._metrics.failed_reconciles.labels(name).inc()
            seconds = self._failing.setdefault(group, Backoff()).next_seconds()
            LOG.warning("reconciling a group failed", extra={"group": "/".join(group), "reason": str(error)})
            self._queue.add(group, seconds)
            return
        except Exception:  # noqa: BLE001 - one that surprises, of one namespace, ends nothing for those of all others
            self._metrics.failed_reconciles.labels(name).inc()
            LOG.exception("reconciling a group failed unexpectedly", extra={"group": "/".join(group)})
            self._queue.add(group, self._failing.setdefault(group, Backoff()).next_seconds())
            return
        finally:
            self._metrics.reconcile_seconds.labels(name).observe(time.monotonic() - begun)
        self._failing.pop(group, None)
        if there:
            self._metrics.last_reconcile.labels(name).set(datetime.now(UTC).timestamp())
            self._queue.add(group, self._interval_seconds)
        elif not any(name == each for cache in self.caches.values() for _, each in cache.groups()):
            self._metrics.forget_group(name)

    async def _reconcile(self, group: Group) -> bool:
        """Whether there is such a group. Raises ApiAway, ApiRefused."""
        cache = self.caches[group[0]]
        sets, pods = cache.of(group)
        if not cache.synced:
            return False  # it is queued again once all is listed
        if self._downscales and sets:
            await self._downscales.look(group, sets, pods)
        if self._scaling and await self._scaling.look(group, sets, pods, self._run_alive):
            return True  # its change is another group to reconcile
        decision = decide(sets, pods)
        if decision.delete or decision.finished:
            hold = await self._hold("/".join(group))
            decision = decide(sets, pods, hold)
            if decision.delete:
                await self._roll(group, sets, hold)
                return True
            if decision.finished:
                decision = replace(await self._decided_by_the_api(group, hold), delete=())
        await self._act(group, sets, decision)
        return bool(sets)

    async def _roll(self, group: Group, sets: Sequence[StatefulSet], hold: Hold | None) -> None:
        """Reconcile with the group's lock; if another process has it, try again later. Raises ApiAway, ApiRefused."""
        if not self._leadership.sure():
            raise ApiAway("this replica may have lost leadership")
        try:
            async with self._locks.locked(group, "a rollout", holder=_HOLDER) as held:
                await self._act(group, sets, await self._decided_by_the_api(group, hold, held), held)
        except GroupLocked as error:
            first = min(sets, key=lambda each: each.name)
            await self._events.record(Event(first, "Normal", "RolloutWaiting", f"the group is locked: {error}"))

    async def _act(
        self, group: Group, sets: Sequence[StatefulSet], decision: GroupDecision, held: Held | None = None
    ) -> None:
        """Do what was decided; delete pods as long as the lock is certain. Raises ApiAway, ApiRefused."""
        for event in decision.events:
            await self._events.record(event)
        await self._note(group, decision)
        refused: NotNow | None = None
        for deletion in decision.delete:
            if held is None or not self._locks.sure(held):
                break  # the rest follows in the next reconciliation
            try:
                await self._delete(deletion, {each.uid: each for each in sets})
            except NotNow as error:  # others may go all the same
                refused = refused or error
        for finished in decision.finished:
            await self._finish(finished)
        if refused:
            raise refused
        LOG.debug("reconciled", extra={"group": "/".join(group), "waits_for": decision.waits_for})

    async def _run_alive(self) -> Hold | None:
        """Raises ApiAway, ApiRefused if that isn't known."""
        return await self._holds[0].look() if self._holds else None

    async def _hold(self, group: str) -> Hold | None:
        """See `RollingGroups.hold`; None also if no run holds anything."""
        if self._holds is None:
            return None
        lease, rolling = self._holds
        return await rolling.hold(group, lease)

    async def _note(self, group: Group, decision: GroupDecision) -> None:
        """Before it begins, records that it is being rolled out; at the end, that it no longer is. Raises ApiAway,
        ApiRefused.
        """
        if self._holds is None:
            return
        if decision.delete:
            await self._holds[1].add("/".join(group))
        elif decision.phase is Phase.DONE:
            await self._holds[1].remove("/".join(group))

    async def _decided_by_the_api(self, group: Group, hold: Hold | None, held: Held | None = None) -> GroupDecision:
        """`held`: the group's lock. Raises GroupLocked if a downscale was allowed that can't be seen yet."""
        namespace, name = group
        found = await stateful_sets(self._api, namespace, f"{GROUP_LABEL}={name}")
        sets = tuple(map(stateful_set, found))
        if held and (opened := unseen(held.lease, sets, held.old)):
            raise GroupLocked(min(opened.values()))
        pods = await pods_of(self._api, namespace, found)
        budgets = self._budgets_of(namespace)
        reserved = budgets.reserved_by_evictions(namespace) if budgets else frozenset[str]()
        return decide(sets, pods, hold, deleted=reserved)

    def _budgets_of(self, namespace: str) -> ZoneBudgets | None:
        return self._budgets if self._budgets and self._budgets.keeps(namespace) else None

    async def _delete(self, deletion: Deletion, owners: Mapping[str, StatefulSet]) -> None:
        which, owner = deletion.pod, owners.get(deletion.pod.owner_uid)
        rollout = Rollout(deletion.max_unavailable, deletion.free)
        asked = RolloutRequest(f"{OF_ROLLOUTS}{uuid.uuid4()}", which, rollout=rollout)
        if refused := await self._refused(asked):
            await self._tell(owner, which, refused)
            return
        if not self._leadership.sure():
            raise ApiAway("this replica may have lost leadership")
        try:
            await self._deleted(asked)
        except NotFound:
            return
        except Conflict as error:  # another object has its name, or a webhook has denied it
            item = await self._api.get(PODS, which.name, which.namespace)
            if item is not None and item["metadata"]["uid"] == which.uid:
                await self._tell(owner, which, str(error))
            return
        except (ApiAway, ApiRefused) as error:
            await self._tell(owner, which, str(error))
            raise
        LOG.info(
            "outdated pod deleted",
            extra={"pod": f"{which.namespace}/{which.name}", "revision": which.revision, "was_ready": which.ready},
        )

    async def _tell(self, owner: StatefulSet | None, pod: Pod, why: str) -> None:
        if owner is not None:
            told = f"{pod.name} isn't deleted yet: {why}"
            await self._events.record(Event(owner, "Normal", "RolloutWaiting", told))

    async def _refused(self, asked: RolloutRequest) -> str:
        """Why the pod's zone-aware budget denies its deletion; "" if it doesn't, and the pod is reserved."""
        budgets = self._budgets_of(asked.pod.namespace)
        if budgets is None or not self._leadership.sure():
            return ""
        judged = await budgets.ask(asked)
        return "" if judged.answer.allowed else judged.answer.message

    async def _deleted(self, asked: RolloutRequest) -> None:
        """Returns once it is; a deletion that is refused, such as by a PodProtector, keeps no place of a budget: it is
        tried again all the time. Raises ApiAway, ApiRefused.
        """
        which = asked.pod
        try:
            await self._api.delete(PODS, which.name, which.namespace, uid=which.uid)
        except (NotNow, ApiRefused) as error:
            if (budgets := self._budgets_of(which.namespace)) and not isinstance(error, NotFound):
                await budgets.give_back(asked)
            raise

    async def _finish(self, finished: Finished) -> None:
        """With OnDelete the controller never updates status.currentRevision, which `kubectl rollout status` reads."""
        which: StatefulSet = finished.set
        found = await self._api.get(STATEFUL_SETS, which.name, which.namespace)
        if found is None or found["metadata"]["uid"] != which.uid:
            return
        status: Mapping[str, Any] = found.get("status") or {}
        if status.get("updateRevision") != finished.revision or not self._leadership.sure():
            return
        changed: Object = {**found, "status": {**status, "currentRevision": finished.revision}}
        try:
            await self._api.replace(STATEFUL_SETS, changed, which.namespace, subresource="status")
        except Conflict:
            return  # its controller has written it meanwhile, and the change triggers another reconciliation
        LOG.info("rolled", extra={"set": f"{which.namespace}/{which.name}", "revision": finished.revision})
