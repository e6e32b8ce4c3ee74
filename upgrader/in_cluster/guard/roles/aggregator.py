"""Counts the pods of a cell into PodProtectors, and removes the deletions that it has seen from the record:
`core.aggregation`.

A new leader first lists the cell's pods. So it knows at least as much as its predecessor, and doesn't count a pod again
whose deletion was already removed from the record. It writes each PodProtector once, if only the time: a late write of
a predecessor that was stopped for a while, and doesn't know yet that it no longer leads, is then a conflict.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from upgrader.in_cluster.guard.core.admission_history import Bucket
from upgrader.in_cluster.guard.core.aggregation import Aggregate, Seen, aggregate
from upgrader.in_cluster.guard.core.ledger import SETTLED_AFTER
from upgrader.in_cluster.guard.core.protector import Cell, Protector
from upgrader.in_cluster.guard.core.protector_object import InvalidProtector, digest_of_status, status
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.core.workloads import Pod
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.direct_read import selector_query
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS, PodsOfCell, counted_pod
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, ProtectorCache
from upgrader.in_cluster.guard.roles.ready_times import ReadyTimes
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.informer import Informer, Key
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics
from upgrader.in_cluster.guard.runtime.work_queue import WorkQueue

__all__ = ["Aggregator"]

_AT_ONCE = 8
"""Protectors that are looked at together; of one namespace at most half as many, as its looks may take long."""
_TRIES = 5
_AGAIN_SECONDS = 10.0
"""How soon a protector is checked again while an allowed deletion has not been seen."""
_FRESH_SECONDS = 30.0
"""How soon a protector's time is written again if nothing changes, to show that its pods are still counted."""
_MOST_LEFT = 20_000
_LEFT_SECONDS = 600.0
"""For how long the API's word counts for more than the cache, which doesn't lag so long: it is listed after each watch
that tells nothing. An etcd that was restored from a backup may have such pods again.
"""
_LONGEST_QUERY = 4096
"""Of a selector in a list's URL, which proxies refuse to pass on if it is long; without it, all pods are listed."""


class Aggregator:
    """The aggregator of one cell. `core`: the cluster with the PodProtectors, which may differ from the cell's
    `worker`.
    """

    def __init__(
        self,
        core: Api,
        worker: Api,
        protectors: ProtectorCache,
        cell: str,
        namespaces: Sequence[str],
        leadership: Leadership,
        metrics: ProtectorMetrics,
        *,
        labels: str = "",
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`labels`: a selector of all pods of the cell that any protector counts. `clock` measures durations; `now` may
        be changed by an administrator, and is only shown.
        """
        self._core, self._worker, self._cell, self._leadership = core, worker, cell, leadership
        self._namespaces, self._labels = namespaces, labels
        self._metrics, self._now, self._clock, self._chance = metrics, now, clock, chance
        self._queue = WorkQueue[Key](at_once=_AT_ONCE)
        self._wrote: set[Key] = set()
        """The protectors that it has written since it leads."""
        self._failing: dict[Key, Backoff] = {}
        self._noticed: dict[Key, dict[tuple[str, frozenset[str]], float]] = {}
        self._members: dict[Key, tuple[Selector, dict[str, Pod]]] = {}
        """The cached pods that each protector counts, with its selector: no protector has to search all pods."""
        self._broken: dict[Key, tuple[str, float]] = {}
        """The protectors whose status can't be read, with its digest, and since when that is known."""
        self._became_ready = ReadyTimes(clock)
        self._left: OrderedDict[str, float] = OrderedDict()
        """The pods of which the API has said that they are gone, or go, and when: the cache may not know it yet."""
        self._pods: PodsOfCell | None = None
        self._protectors = protectors
        protectors.tell(self._protector_changed)
        metrics.waiting.set_function(lambda: len(self._waiting()))
        metrics.waiting_seconds.set_function(lambda: now() - min(self._waiting(), default=now()))

    async def run(self) -> None:
        """Lead, and count what has changed, until cancelled."""
        await self._leadership.lead(self._work)

    async def _work(self) -> None:
        self._members.clear()
        self._wrote.clear()
        self._became_ready.forget()  # what pods did while another one led isn't known
        self._pods = pods = PodsOfCell(self._worker, self._namespaces, self._labels, self._pod_changed, self._now)
        try:
            with self._metrics.leading("aggregator"):
                async with asyncio.TaskGroup() as group:
                    for namespace, each in pods.followed.items():
                        group.create_task(each.run())
                        group.create_task(self._begin(namespace, each))
                    await self._queue.each(self._look_at)
        finally:
            self._pods = None

    async def _begin(self, namespace: str, pods: Informer[Pod]) -> None:
        """If one namespace can't be listed, as its administrator has taken guard's rights away, others are counted."""
        for informer in (pods, self._protectors.followed[namespace]):
            await informer.synced.wait()
        known = [(held.protector.namespace, held.protector.name) for held in self._protectors]
        for key in (*known, *self._protectors.with_unreadable_status()):
            if namespace in ("", key[0]):
                self._queue.add(key)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        found = after or before
        assert found is not None
        self._became_ready.changed(before, after)
        possible = {
            protector.name: protector
            for each in (before, after)
            if each is not None
            for protector in self._protectors.possible(found.namespace, each.labels)
        }
        for protector in possible.values():
            counted = after is not None and protector.aggregation.matches(after.labels)
            if not counted and (before is None or not protector.aggregation.matches(before.labels)):
                continue
            self._soon(protector)
            _, members = self._members.get((protector.namespace, protector.name), (None, dict[str, Pod]()))
            if before is not None:
                members.pop(before.uid, None)
            if counted and after is not None:
                members[after.uid] = after

    def _protector_changed(self, key: Key) -> None:
        if self._protectors.unreadable_status(key):
            self._queue.add(key)
        else:
            self._broken.pop(key, None)
        if held := self._protectors.get(key):
            if key in self._members and self._members[key][0] != held.protector.aggregation:
                del self._members[key]  # they aren't kept up to date from now on
            self._soon(held.protector)
        else:
            self._noticed.pop(key, None)
            self._members.pop(key, None)
            self._wrote.discard(key)

    def _soon(self, protector: Protector) -> None:
        seconds = protector.tuning.aggregation_rate * (0.5 + self._chance() / 2)
        self._queue.add((protector.namespace, protector.name), seconds)

    async def _look_at(self, key: Key) -> None:
        begun, error = time.monotonic(), ""
        try:
            await self._reconcile(key)
            self._failing.pop(key, None)
        except (ApiAway, ApiRefused, InvalidProtector) as failed:
            error = type(failed).__name__
            if isinstance(failed, Conflict):
                seconds = 0.1 + self._chance() / 10
            else:
                seconds = self._failing.setdefault(key, Backoff()).next_seconds()
                LOG.warning("counting a PodProtector's pods failed", extra={"of": "/".join(key), "reason": str(failed)})
            self._queue.add(key, seconds)
        except Exception as failed:  # noqa: BLE001 - one that surprises, of one namespace, ends nothing for all others
            error = type(failed).__name__
            LOG.exception("counting a PodProtector's pods failed unexpectedly", extra={"of": "/".join(key)})
            self._queue.add(key, self._failing.setdefault(key, Backoff()).next_seconds())
        finally:
            self._metrics.aggregator.labels(error).observe(time.monotonic() - begun)

    async def _reconcile(self, key: Key) -> None:
        """Raises ApiAway, ApiRefused, InvalidProtector."""
        held = self._protectors.get(key)
        if held is None:
            await self._correct(key)
        if held is None or self._pods is None:
            return
        if not self._pods.listed(key[0]):
            return
        item, protector = held.item, held.protector
        found = self._aggregate(protector, {})
        read = await self._from_api(protector, found.to_read) if found.to_read else {}
        listed: dict[str, Pod] | None = None
        for _ in range(_TRIES):
            found = self._aggregate(protector, read, listed)
            if found.to_list:
                listed = await self._listed(protector, item["spec"])
                found = self._aggregate(protector, read, listed)
            if key in self._wrote and not self._is_new(protector, found.cell):
                break
            if not self._leadership.sure():
                raise ApiAway("this replica may have lost leadership")
            content = status(protector.with_cell(found.cell), item.get("status"))
            try:
                await self._core.replace(POD_PROTECTORS, {**item, "status": content}, key[0], subresource="status")
                self._wrote.add(key)
                break
            except NotFound:
                return
            except Conflict:
                newest = await self._core.get(POD_PROTECTORS, key[1], key[0])
                if newest is None:
                    return
                before, item, protector = protector, newest, self._protectors.read(newest)
                if protector.aggregation != before.aggregation:
                    listed = None
        else:
            raise Conflict(f"{'/'.join(key)} was changed by other clients {_TRIES} times", 409)
        again = [_FRESH_SECONDS, *([_AGAIN_SECONDS] if found.cell.buckets else ())]
        self._queue.add(key, min([*again, *([found.again_in] if found.again_in is not None else ())]))

    async def _correct(self, key: Key) -> None:
        """Write a status anew that can't be read: while it is there, no webhook allows a deletion, so that after a
        while none is left of those that were allowed before.

        Where it changes, a webhook of another version may read it, and have allowed a deletion: the while begins again.
        """
        digest = self._protectors.unreadable_status(key)
        if not digest:
            return
        known, since = self._broken.get(key, ("", 0.0))
        if known != digest:
            since = self._clock()
            self._broken[key] = digest, since
        left = SETTLED_AFTER - (self._clock() - since)
        if left > 0:
            self._queue.add(key, left)
            return
        item = await self._core.get(POD_PROTECTORS, key[1], key[0])
        if item is None or digest_of_status(item) != digest:  # the watch is going to show it
            self._queue.add(key, SETTLED_AFTER)
            return
        try:
            self._protectors.read(item)
        except InvalidProtector as error:
            protector, before = self._protectors.corrected(item)
            if not self._leadership.sure():
                raise ApiAway("this replica may have lost leadership") from error
            content = status(protector, before)
            await self._core.replace(POD_PROTECTORS, {**item, "status": content}, key[0], subresource="status")
            LOG.warning("a PodProtector's status was rewritten", extra={"of": "/".join(key), "reason": str(error)})

    def _aggregate(
        self, protector: Protector, read: Mapping[str, Pod | None], listed: Mapping[str, Pod] | None = None
    ) -> Aggregate:
        """`read`: the pods that were just read from the API; `listed`: all pods."""
        assert self._pods is not None
        now, pods = self._clock(), self._counted(protector) if listed is None else listed
        allowed_for = self._allowed_for(protector, now)
        since = now - _LEFT_SECONDS
        left = {uid: None for uid in (*allowed_for, *pods) if self._left.get(uid, since) > since}
        for uid in protector.cell(self._cell).young & pods.keys():
            self._became_ready.seen_by_another(uid)  # the previous leader
        gone = self._pods.gone
        seen = Seen(
            pods,
            self._pods.last_event(protector.namespace),
            self._pods.deleted,
            {**read, **left},
            allowed_for,
            {uid: seconds for uid in pods if (seconds := self._became_ready.seconds(uid)) is not None},
            listed is not None,
            [uid for uid in allowed_for if gone.get(uid)],
        )
        return aggregate(protector, self._cell, seen, self._now())

    def _counted(self, protector: Protector) -> Mapping[str, Pod]:
        """The pods that the protector counts, by UID, as the cache has them."""
        assert self._pods is not None
        key = (protector.namespace, protector.name)
        selector, members = self._members.get(key, (None, dict[str, Pod]()))
        if selector != protector.aggregation:
            members = self._pods.matching(protector.namespace, protector.aggregation)
            held = self._protectors.get(key)
            # Pod events are filtered by the cached protector's selector: they wouldn't keep another one's pods current.
            if held is not None and held.protector.aggregation == protector.aggregation:
                self._members[key] = protector.aggregation, members
        return members

    def _allowed_for(self, protector: Protector, now: float) -> dict[str, float]:
        """For how long each pod's deletion has been allowed, as far as this process knows; a new request starts again
        at 0.

        By UID; "": for how long the number of deletions without a UID has been unchanged.
        """
        key = (protector.namespace, protector.name)
        before = self._noticed.get(key, {})
        marks = [mark for b in protector.cell(self._cell).buckets for mark in _marks(b)]
        found = {mark: before.get(mark, now) for mark in marks}
        self._noticed[key] = found
        # Of several buckets without a UID, the latest counts.
        return {uid: now - since for (uid, _), since in sorted(found.items(), key=lambda item: item[1])}

    async def _from_api(self, protector: Protector, uids: Sequence[str]) -> dict[str, Pod | None]:
        """Each of these pods; None for one that is gone. A pod whose name isn't known is searched in the whole
        namespace.
        """
        names = {b.uid: b.name for b in protector.cell(self._cell).buckets}
        found, among = dict[str, Pod | None](), dict[str, Pod]()
        if any(not names.get(uid) for uid in uids):
            among = await self._all(protector.namespace)
        for uid in uids:
            if name := names.get(uid):
                found[uid] = await self._present(uid, name, protector.namespace)
            else:
                found[uid] = among.get(uid)
            self._remember(uid, found[uid])
        return found

    async def _present(self, uid: str, name: str, namespace: str) -> Pod | None:
        """A pod, as the API has it; None if it is gone, or another one has its name."""
        item = await self._worker.get(PODS, name, namespace)
        found = counted_pod(item) if item is not None else None
        return found if found is not None and found.uid == uid else None

    async def _listed(self, protector: Protector, spec: Mapping[str, Any]) -> dict[str, Pod]:
        """The protector's pods among those that are followed, as the API has them. `spec`: of the API's object."""
        cached, wider = dict(self._counted(protector)), spec.get("aggregationSelector")
        query = selector_query(spec["selector"] if wider is None else wider)
        labels = ",".join(filter(None, (self._labels, query if len(query) <= _LONGEST_QUERY else "")))
        found = await self._all(protector.namespace, labels)
        for uid, known in cached.items():
            # One that isn't listed is gone, or has other labels by now.
            there = found.get(uid) or await self._present(uid, known.name, protector.namespace)
            self._remember(uid, there)
        return found

    def _remember(self, uid: str, found: Pod | None) -> None:
        """A stale cache may still have a pod that has left, or see it come and go."""
        if found is None or found.terminating or found.finished:
            self._left[uid] = self._clock()
            self._left.move_to_end(uid)
            if len(self._left) > _MOST_LEFT:
                self._left.popitem(last=False)

    async def _all(self, namespace: str, labels: str = "") -> dict[str, Pod]:
        found, _ = await everything(self._worker, PODS, namespace, {"labelSelector": labels}, counted_pod)
        return {each.uid: each for each in found}

    def _is_new(self, protector: Protector, cell: Cell) -> bool:
        """Whether the status has to be written; an unchanged one is written from time to time, too."""
        before = next((each for each in protector.cells if each.name == cell.name), None)
        if before is None or replace(cell, last_event=before.last_event, counted_by=before.counted_by) != before:
            return True
        # A definition of another version may drop the hash: without this, each write would lead to the next one.
        if before.counted_by not in ("", cell.counted_by):
            return True
        return abs((cell.last_event or 0.0) - (before.last_event or 0.0)) >= _FRESH_SECONDS

    def _waiting(self) -> list[float]:
        """For each protector with deletions that are newer than the last pod events: when the oldest began."""
        found = list[float]()
        for held in self._protectors:
            cell = held.protector.cell(self._cell)
            younger = [b.start for b in cell.buckets if b.last > (cell.last_event or 0.0)]
            found += [min(younger)] if younger else []
        return found


def _marks(found: Bucket) -> Iterator[tuple[str, frozenset[str]]]:
    """The identity of each of its deletions; "" for those without a UID. Another request, or another deletion in the
    same bucket, changes the identity.
    """
    yield from ((uid, found.requests) for uid in found.known)
    if found.unknown:
        yield "", found.requests | {f"{found.unknown} until {found.last}"}
