"""Maintains IngressDaemonSets: a Deployment for each node, updated node by node, as `core.ingress_rollout` decides.

Caches trigger a reconciliation. Before anything is written, everything is read from the API itself and decided again,
so that a new leader continues where the previous one was killed. The same is done with the Lease of a run of the
upgrader: a rollout that hasn't begun waits until the run ends, unless the run's own step caused it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from upgrader.in_cluster.guard.core.ingress import (
    NODE_ANNOTATIONS,
    IngressDaemonSet,
    InvalidIngress,
    noted,
    of_note,
    read,
    refuse_foreign_keys,
)
from upgrader.in_cluster.guard.core.ingress_objects import REVISION, health_checker
from upgrader.in_cluster.guard.core.ingress_rollout import (
    IngressDecision,
    NodeWork,
    decide,
    node_deployment,
    taken_back,
)
from upgrader.in_cluster.guard.core.ingress_status import invalid_status, status
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.ingress_cluster import (
    DAEMON_SETS,
    DEPLOYMENTS,
    INGRESSES,
    NODES,
    Cluster,
    IngressCluster,
)
from upgrader.in_cluster.guard.roles.rolling_groups import RollingGroups
from upgrader.in_cluster.guard.roles.run_lease import RunLease
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.informer import Key
from upgrader.in_cluster.guard.runtime.ingress_metrics import IngressMetrics
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.resource import Object, Resource
from upgrader.in_cluster.guard.runtime.work_queue import WorkQueue

__all__ = ["IngressDaemonSets"]

_AGAIN_SECONDS = 0.2
"""Delay after a conflict: another client has written the object meanwhile."""


@dataclass(frozen=True)
class _Checkers:
    """Health checkers to write (by name), and to delete."""

    write: Mapping[str, Object]
    delete: Sequence[str]


class IngressDaemonSets:
    """For some namespaces."""

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        leadership: Leadership,
        metrics: IngressMetrics,
        interval_seconds: float,
        *,
        image: str = "",
        node_annotations: Collection[str] = NODE_ANNOTATIONS,
        holds: tuple[RunLease, RollingGroups] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`image`: guard's own, for health checkers. `node_annotations`: the keys that they may have on Nodes.

        `holds`: the runs that still hold rollouts, and the rollouts that have begun; None: no run does. Each object is
        reconciled every `interval_seconds`, even without an event.
        """
        self._api, self._leadership, self._metrics = api, leadership, metrics
        self._interval_seconds, self._image, self._now = interval_seconds, image, now
        self._node_annotations, self._holds = node_annotations, holds
        # One after the other: what one has just detached counts for the next one.
        self._queue = WorkQueue[Key]()
        self._failing: dict[Key, Backoff] = {}
        self._cluster = IngressCluster(api, namespaces, self._queue.add, now)
        self.informers = self._cluster.informers

    async def run(self) -> None:
        """Lead, and reconcile what has changed, until cancelled."""
        await self._leadership.lead(self._work)

    async def _work(self) -> None:
        if self._holds:
            self._holds[1].forget()
        for informer in self.informers:
            await informer.synced.wait()
        for key in self._cluster.all():
            self._queue.add(key)
        for text in await self._holds[1].left() if self._holds else ():
            if (key := of_note(text)) in self._cluster:
                self._queue.add(key)
        while True:
            await self._look_at(await self._queue.take())

    async def _look_at(self, key: Key) -> None:
        try:
            result, again = await self._reconcile(key)
            self._failing.pop(key, None)
        except Conflict:
            self._queue.add(key, _AGAIN_SECONDS)
            return
        except (ApiAway, ApiRefused) as error:
            result, again = "failed", self._failing.setdefault(key, Backoff()).next_seconds()
            LOG.warning(
                "reconciling an IngressDaemonSet failed", extra={"ingress": "/".join(key), "reason": str(error)}
            )
        except Exception:  # noqa: BLE001 - one that surprises, of one namespace, ends nothing for those of all others
            result, again = "failed", self._failing.setdefault(key, Backoff()).next_seconds()
            LOG.exception("reconciling an IngressDaemonSet failed unexpectedly", extra={"ingress": "/".join(key)})
        self._metrics.looked_at(*key, result)
        if self._cluster.get(key) is None and again is None:
            self._metrics.forget(*key)
        if again is not None:
            self._queue.add(key, again)

    async def _reconcile(self, key: Key) -> tuple[str, float | None]:
        """The result, and after how many seconds to reconcile again. Raises ApiAway, ApiRefused."""
        item = self._cluster.get(key)
        if item is None:
            await self._let_go(key)
            return "done", None
        if item["metadata"].get("deletionTimestamp"):
            return "done", None
        try:
            which = self._read(item)
            failed: dict[str, Exception] = {}
            decision, checkers = self._decide(item, which, self._cluster.cached(item))
            held = await self._held(which) if _anything(decision, checkers) else ""
            if held:
                decision, checkers = self._decide(item, which, self._cluster.cached(item), held)
            if _anything(decision, checkers):
                newest = await self._api.get(INGRESSES, key[1], key[0])
                if newest is None or newest["metadata"]["uid"] != item["metadata"]["uid"]:
                    return "done", None  # the cache will report it
                item, which = newest, self._read(newest)
                cluster = await self._cluster.read(item, which)
                decision, checkers = self._decide(item, which, cluster, held)
                await self._note(which, decision)
                failed = await self._do(item, which, cluster, decision, checkers)
        except InvalidIngress as error:
            await self._tell(item, invalid_status(item, str(error), self._now()))
            return "invalid", None
        if not decision.under_way:
            await self._note(which, decision)
        failures = {name: str(error) for name, error in failed.items() if not isinstance(error, Conflict)}
        await self._tell(item, status(item, which, decision, failures, self._now()))
        self._count(key, decision)
        if failed:  # an operator has to act, as a retry won't help
            raise min(failed.values(), key=lambda each: isinstance(each, Conflict))
        again = [each.again_in for each in decision.work if each.again_in is not None]
        return "waits" if decision.work else "done", min([self._interval_seconds, *again])

    def _read(self, item: Object) -> IngressDaemonSet:
        """Raises InvalidIngress."""
        which = read(item)
        refuse_foreign_keys(which, self._node_annotations)
        return which

    async def _held(self, which: IngressDaemonSet) -> str:
        """What the rollout waits for; "" if it may begin. If it isn't known whether a run is alive, a new rollout
        waits; one that has begun continues.
        """
        if self._holds is None:
            return ""
        lease, rolling = self._holds
        try:
            hold = await rolling.hold(which.noted, lease)
        except (ApiAway, ApiRefused) as error:
            return f"the Lease of upgrades, which can't be read: {error}"
        return "" if hold is None or which.noted in hold.groups else f"the upgrade {hold.run} to end"

    async def _note(self, which: IngressDaemonSet, decision: IngressDecision) -> None:
        """Before the first node, records that it is being rolled out; at the end, that it no longer is. Raises ApiAway,
        ApiRefused.
        """
        if self._holds is None:
            return
        if decision.updating:
            await self._holds[1].add(which.noted)
        elif not decision.under_way:
            await self._holds[1].remove(which.noted)

    def _decide(
        self, item: Object, which: IngressDaemonSet, cluster: Cluster, held: str = ""
    ) -> tuple[IngressDecision, _Checkers]:
        nodes = [self._cluster.node(each, which) for each in cluster.nodes.values()]
        decision = decide(which, nodes, map(node_deployment, cluster.deployments.values()), self._now(), held)
        wanted = {
            each["metadata"]["name"]: each for each in (health_checker(which, p, self._image) for p in which.ports)
        }
        if held:  # a checker that is being replaced doesn't answer meanwhile
            return decision, _Checkers({name: wanted[name] for name in wanted.keys() - cluster.checkers.keys()}, ())
        return decision, _Checkers(
            {name: each for name, each in wanted.items() if _revision(cluster.checkers.get(name)) != _revision(each)},
            sorted(cluster.checkers.keys() - wanted.keys()),
        )

    async def _do(
        self, item: Object, which: IngressDaemonSet, cluster: Cluster, decision: IngressDecision, checkers: _Checkers
    ) -> dict[str, Exception]:
        """Does everything that is possible now: a refusal for one node doesn't delay the others. Node → why it was
        refused.
        """
        failed = dict[str, Exception]()
        # Health checkers first: a node whose health port doesn't answer gets no traffic.
        for name, wanted in checkers.write.items():
            try:
                await self._write(DAEMON_SETS, item, wanted, cluster.checkers.get(name))
            except (ApiAway, ApiRefused) as error:
                failed[name] = error
        for name in checkers.delete:
            try:
                await self._delete(DAEMON_SETS, cluster.checkers[name])
            except (ApiAway, ApiRefused) as error:
                failed[name] = error
        for work in decision.work:
            try:
                await self._one(item, work, cluster)
            except (ApiAway, ApiRefused) as error:
                failed[work.node] = error
        return failed

    async def _one(self, item: Object, work: NodeWork, cluster: Cluster) -> None:
        """Raises ApiAway, ApiRefused; Conflict if something has changed since it was read."""
        namespace = item["metadata"]["namespace"]
        its = next((each for each in cluster.deployments.values() if node_deployment(each).node == work.node), None)
        if work.patch_deployment and its is not None:
            await self._annotate(DEPLOYMENTS, its, namespace, work.patch_deployment)
        node = cluster.nodes.get(work.node)
        if work.patch_node and node is not None:
            await self._annotate(NODES, node, "", work.patch_node)
        if work.apply is not None:
            await self._write(DEPLOYMENTS, item, work.apply, its)
        if work.delete:
            await self._delete(DEPLOYMENTS, cluster.deployments[work.delete])

    async def _annotate(
        self, resource: Resource, item: Object, namespace: str, annotations: Mapping[str, str | None]
    ) -> None:
        """Only for the object as it was read."""
        meta = item["metadata"]
        self._sure()
        changes = {"metadata": {"resourceVersion": meta["resourceVersion"], "annotations": dict(annotations)}}
        await self._api.patch(resource, meta["name"], changes, namespace)
        LOG.info("annotated", extra={resource.plural[:-1]: meta["name"], "annotations": dict(annotations)})

    async def _write(self, resource: Resource, item: Object, wanted: Object, before: Object | None) -> None:
        """Create it, or replace the existing one; metadata that others have added stays."""
        meta = item["metadata"]
        owner = {
            "apiVersion": INGRESSES.api_version,
            "kind": "IngressDaemonSet",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        made, namespace = wanted["metadata"], meta["namespace"]
        extra = {resource.plural[:-1]: f"{namespace}/{made['name']}", "revision": made["annotations"][REVISION]}
        self._sure()
        if before is None:
            manifest: Object = {**wanted, "metadata": {**made, "ownerReferences": [owner]}}
            try:
                await self._api.create(resource, manifest, namespace)
            except Conflict:
                told = f"{resource.plural} {namespace}/{made['name']} exists already and has another owner: delete it"
                raise ApiRefused(told, 409) from None
            LOG.info("made", extra=extra)
            return
        old = before["metadata"]
        kept = {key: {**(old.get(key) or {}), **made[key]} for key in ("labels", "annotations")}
        await self._api.replace(resource, {**wanted, "metadata": {**old, **kept}}, namespace)
        LOG.info("updated", extra=extra)

    async def _delete(self, resource: Resource, item: Object) -> None:
        meta = item["metadata"]
        if meta.get("deletionTimestamp"):
            return
        self._sure()
        try:
            await self._api.delete(resource, meta["name"], meta["namespace"], uid=meta["uid"])
        except (NotFound, Conflict):
            return  # it is gone, or another object has its name
        LOG.info("deleted", extra={resource.plural[:-1]: f"{meta['namespace']}/{meta['name']}"})

    async def _let_go(self, key: Key) -> None:
        """It and its Deployments (by the garbage collector) are gone: Nodes that it has detached are returned to
        service.
        """
        for name in self._cluster.asked_by(key):
            if await self._api.get(INGRESSES, key[1], key[0]) is not None:
                return  # another object has its name, and the cache will report it
            node = await self._api.get(NODES, name)
            patch = taken_back(node["metadata"].get("annotations") or {}, "/".join(key)) if node is not None else {}
            if node is not None and patch:
                await self._annotate(NODES, node, "", patch)
        if self._holds:
            await self._holds[1].remove(noted(*key))

    async def _tell(self, item: Object, content: Mapping[str, object]) -> None:
        before = item.get("status") or {}
        if {**before, **content} == before:
            return
        self._sure()
        try:
            made = {**item, "status": {**before, **content}}
            await self._api.replace(INGRESSES, made, item["metadata"]["namespace"], subresource="status")
        except NotFound:
            return

    def _count(self, key: Key, decision: IngressDecision) -> None:
        states = ("desired", "updated", "ready", "updating")
        self._metrics.count(*key, {state: getattr(decision, state) for state in states})

    def _sure(self) -> None:
        if not self._leadership.sure():
            raise ApiAway("this replica may have lost leadership")


def _anything(decision: IngressDecision, checkers: _Checkers) -> bool:
    return bool(any(map(_writes, decision.work)) or checkers.write or checkers.delete)


def _writes(work: NodeWork) -> bool:
    return bool(work.patch_deployment or work.patch_node or work.apply is not None or work.delete)


def _revision(item: Object | None) -> str:
    return "" if item is None else str((item["metadata"].get("annotations") or {}).get(REVISION, ""))
