"""One observation: what the API server and the container runtime report now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from upgrader.contract.checkpoints import LEASE, POD_SUFFIX
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway, ApiError, Refused, RuntimeUnknown
from upgrader.in_cluster.checkpointer.observation.provenance import Key, Provenance
from upgrader.in_cluster.checkpointer.observation.running_pods import instances, presence, standby_presence
from upgrader.in_cluster.checkpointer.observation.scope import Scope
from upgrader.in_cluster.checkpointer.observed_values import (
    ApiState,
    Content,
    LeaseSeen,
    Observation,
    Owner,
    ParentPod,
    Presence,
    StandbySeen,
)
from upgrader.in_cluster.checkpointer.static_pods.pods import (
    Pod,
    asks,
    containers_of,
    is_ready,
    is_terminating,
    owner_kind,
    predates,
    workload_of,
)
from upgrader.in_cluster.checkpointer.static_pods.sanitise import Candidate, candidate
from upgrader.onhost.node.cri import Sandbox
from upgrader.onhost.node.disk_inventory import StoredWorkload
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.onhost.node.workload_policy import Policy, Workload

_REFRESH_SECONDS = 30.0
"""Seconds for which a Secret or ConfigMap is taken as read; the kubelet itself refreshes volumes about once a minute.
"""

CHANGED = "ContentChanged"
"""Reason of a pod whose Secrets or ConfigMaps are no longer what it was started with."""


class ApiReader(Protocol):
    """What an observation needs of the API server; each raises ApiError."""

    def pods(self) -> list[Pod]:
        """All pods bound to this node."""

    def content(self, kind: str, namespace: str, name: str) -> Content | None:
        """A Secret or ConfigMap; None when it doesn't exist."""

    def owner(self, kind: str, namespace: str, name: str) -> Owner | None:
        """A Deployment, DaemonSet or StatefulSet; None when it doesn't exist."""

    def lease(self, namespace: str, name: str) -> tuple[str, str]:
        """(time of the last renewal, holder)."""

    def is_here(self) -> bool:
        """Whether the API server that answered last was reached on this very node, as its kubelet reaches it."""

    def leads_elsewhere(self) -> bool:
        """Whether the kubelet's address for the API also leads to another node's server."""

    def serves_elsewhere(self) -> bool:
        """Whether an API server that isn't this node's answers."""


class Node(Protocol):
    """What an observation needs of the node itself."""

    def sandboxes(self) -> list[Sandbox]:
        """All sandboxes with their containers. Raises RuntimeUnknown."""

    def images(self, names: Iterable[str]) -> Mapping[str, bool]:
        """Which of these images are here. Raises RuntimeUnknown."""

    def locked(self, names: Iterable[str]) -> Mapping[str, str]:
        """Which of these images a static pod can't use although they are here, and why. Raises RuntimeUnknown."""

    def static_pods(self) -> frozenset[Workload]:
        """Static pods of others on this node."""

    def unready(self, pod: Pod, instances: int) -> str:
        """Why a pod isn't ready by our own asking; empty when it is, or can't be asked. `instances`: how many pods of
        its workload run on this node, standby pods included.
        """

    def blocked(self, workload: Workload, number: int) -> bool:
        """Whether what this generation depends on is unreachable, so that it can't stay up through no fault of its
        own.
        """


@dataclass(frozen=True)
class ObservedNode:
    """An observation with its raw material. `pods` and `candidates` by pod UID. `images`: image → whether it is here;
    lacks what isn't known. `doubts`: pod UID → why it doesn't count as Ready although its condition in the API is True.
    `complaints`: what could not be seen, and why. `ignored`: pods that ask for a checkpoint, and may have none.
    """

    seen: Observation
    pods: Mapping[str, Pod] = field(default_factory=dict)
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    images: Mapping[str, bool] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass
class Observer:
    """Observes both sources. `own_ports`: DaemonSet's port → its standby pod's.

    `instance`: name of the pod that this process runs in. Of the checkpointer's own pods only that one is a
    candidate: a new version replaces its predecessor's standby pod by acting well itself, not by standing by while the
    predecessor acts.
    """

    api: ApiReader
    machine: Node
    own: Callable[[Pod], bool]
    instance: str
    own_ports: Mapping[int, int]
    clock: Callable[[], float] = time.monotonic
    scope: Scope = field(default_factory=Scope)
    _locked: dict[str, tuple[float, str]] = field(default_factory=dict)
    _contents: dict[Key, tuple[float, Content | None]] = field(default_factory=dict)
    _provenance: Provenance = field(default_factory=Provenance)
    _images: dict[str, tuple[float, bool]] = field(default_factory=dict)

    def observe(self, disk: Mapping[Workload, StoredWorkload]) -> ObservedNode:
        """One observation. Raises nothing for a source that can't be seen: that is part of the observation."""
        complaints: list[str] = []
        pods: list[Pod] = []
        ignored: list[str] = []
        state = ApiState.ANSWERING
        try:
            for pod in filter(asks, self.api.pods()):
                if self.own(pod) or self.scope.admits(pod):
                    pods.append(pod)
                else:
                    ignored.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
            self._provenance.see_pods(pods, self.clock())
        except ApiError as error:
            state = ApiState.AWAY if isinstance(error, ApiAway) else ApiState.UNKNOWN
            complaints.append(str(error))
        sandboxes = self._sandboxes(complaints)
        candidates: dict[str, Candidate] = {}
        claimed = tuple(self._parent(p, disk, candidates, complaints) for p in pods)
        by_uid = {p["metadata"]["uid"]: p for p in pods}
        doubts = {p.uid: self._doubt(by_uid[p.uid], p, disk, sandboxes) for p in claimed if p.ready}
        parents = tuple(replace(p, ready=False, digest=None) if doubts.get(p.uid) else p for p in claimed)
        answering = state is ApiState.ANSWERING
        leases = self._leases(disk, parents, complaints) if answering else {}
        ownerless = self._ownerless(disk, parents, complaints) if answering else frozenset()
        barred = self._barred(disk)
        unneeded = self._unneeded(disk, parents, barred, complaints) if answering else frozenset()
        runtime = None if sandboxes is None else _presences(disk, parents, candidates, sandboxes)
        standbys = {} if sandboxes is None else self._standbys(disk, sandboxes, state)
        images = {} if sandboxes is None else self._have(disk, state, complaints)
        self._forget()
        return ObservedNode(
            Observation(self.clock(), state, parents, runtime, leases, standbys, ownerless, barred, unneeded),
            by_uid,
            candidates,
            images,
            {uid: doubt for uid, doubt in doubts.items() if doubt},
            tuple(complaints),
            tuple(sorted(ignored)),
        )

    def owner(self, pod: Pod) -> Owner | None:
        """The pod's Deployment, DaemonSet or StatefulSet; None when it is gone or can't be read. It only informs."""
        try:
            return self.api.owner(owner_kind(pod), pod["metadata"]["namespace"], workload_of(pod).name)
        except (ApiError, Refused):
            return None

    def _doubt(
        self, pod: Pod, parent: ParentPod, disk: Mapping[Workload, StoredWorkload], sandboxes: list[Sandbox] | None
    ) -> str:
        """Why a pod that the API calls Ready doesn't count as such; empty where it does.

        The kubelet's word in the API may be old: the containers that it names must run now, and while something hangs
        on the pod (a new generation, or an end of the standby pod's work) its probes are asked by ourselves. The
        checkpointer's own pods are judged by what they do.
        """
        if self.own(pod):
            return ""
        if sandboxes is None:
            return "the container runtime doesn't report whether it runs"
        if not containers_of(pod) <= {c.id for s in sandboxes for c in s.containers if c.running}:
            return "the container runtime doesn't run the containers that the kubelet last reported"
        stored = disk.get(parent.workload)
        settled = stored is not None and not stored.active and stored.newest and stored.newest.digest == parent.digest
        if settled or parent.terminating:
            return ""
        return self.machine.unready(pod, instances(parent.workload, sandboxes))

    def _ownerless(
        self, disk: Mapping[Workload, StoredWorkload], parents: tuple[ParentPod, ...], complaints: list[str]
    ) -> frozenset[Workload]:
        """Workloads with a lease that no longer exist according to the API."""
        here = {p.workload for p in parents}
        gone: set[Workload] = set()
        for workload, stored in disk.items():
            kind = stored.newest.origin.owner_kind if stored.newest and stored.newest.lease else ""
            if not kind or workload in here:
                continue
            try:
                if self.api.owner(kind, workload.namespace, workload.name) is None:
                    gone.add(workload)
            except ApiError as error:
                complaints.append(f"{workload}: it is unknown whether it still exists: {error}")
        return frozenset(gone)

    def _barred(self, disk: Mapping[Workload, StoredWorkload]) -> dict[Workload, str]:
        """Workloads of which no standby pod may run here, and why."""
        others = self.machine.static_pods()
        barred: dict[Workload, str] = {}
        for workload, stored in disk.items():
            if _is_own(stored):
                continue
            if not self.scope.allows(workload):
                barred[workload] = "`namespaces` and `workloads` don't allow it to have a checkpoint"
            elif workload in others:
                barred[workload] = "another static pod on this node has the same name"
        return barred

    def _unneeded(
        self,
        disk: Mapping[Workload, StoredWorkload],
        parents: tuple[ParentPod, ...],
        barred: Mapping[Workload, str],
        complaints: list[str],
    ) -> frozenset[Workload]:
        """Workloads that have no pod here and aren't meant to, while others do their work."""
        here = {p.workload for p in parents}
        found: set[Workload] = set()
        for workload, stored in disk.items():
            if workload in here or _is_own(stored):
                continue
            if not self.scope.allows(workload):
                found.add(workload)
                continue
            try:
                if self._idle(workload, stored) and self._replaced(workload, stored, barred):
                    found.add(workload)
            except ApiError as error:
                complaints.append(f"{workload}: it is unknown whether it is still needed here: {error}")
        return frozenset(found)

    def _idle(self, workload: Workload, stored: StoredWorkload) -> bool:
        """Whether it is not meant to have a pod here: it doesn't exist, or has all its pods elsewhere.

        One with a Lease may get its next pod here, and only its standby pod can take over from a leader that is lost.
        """
        kind = stored.newest.origin.owner_kind if stored.newest else ""
        if not kind or stored.newest is None:
            return False
        owner = self.api.owner(kind, workload.namespace, workload.name)
        return owner is None or (owner.settled and not stored.newest.lease)

    def _replaced(self, workload: Workload, stored: StoredWorkload, barred: Mapping[Workload, str]) -> bool:
        """Whether others do its work. What answers may be its own standby pod, which nothing else would replace.

        The kubelet has one address for the API. Where that leads only to this node, only what runs here does its work,
        even while others serve: without it, the node would be lost to the cluster. A load balancer on this node leads
        to the others as well.
        """
        if stored.inventory({}).policy is not Policy.API_AWAY or workload in barred:
            return True
        if workload == KUBE_APISERVER and stored.active and self.api.is_here() and not self.api.leads_elsewhere():
            return False
        return self.api.serves_elsewhere()

    def _refuse_locked(self, made: Candidate) -> None:
        """Raises Refused when the kubelet wouldn't let a static pod use an image."""
        now = self.clock()
        spec = made.manifest["spec"]
        names = {c["image"] for c in [*spec.get("initContainers", []), *spec["containers"]]}
        stale = [n for n in names if n not in self._locked or now - self._locked[n][0] >= _REFRESH_SECONDS]
        if stale:
            found = self.machine.locked(stale)
            self._locked |= {name: (now, found.get(name, "")) for name in stale}
        why = [self._locked[name][1] for name in sorted(names) if self._locked[name][1]]
        if why:
            raise Refused("ImageNeedsCredentials", "; ".join(why))

    def _parent(
        self, pod: Pod, disk: Mapping[Workload, StoredWorkload], candidates: dict[str, Candidate], complaints: list[str]
    ) -> ParentPod:
        meta, ready = pod["metadata"], is_ready(pod)
        workload = Workload(meta["namespace"], meta["name"])
        digest: str | None = None
        problem: tuple[str, str] | None = None
        try:
            workload = workload_of(pod)
            own = self.own(pod)
            ready = ready or self._first(pod, workload, disk)
            if ready and not is_terminating(pod) and (not own or meta["name"] == self.instance):
                ports = self.own_ports if own else {}
                made, held = self._candidate(pod, workload, ports)
                self._refuse_locked(made)
                if all(self._started_with(pod, key, content) for key, content in held.items()):
                    candidates[meta["uid"]], digest = made, made.digest
                else:
                    problem = (
                        CHANGED,
                        (
                            "a Secret or ConfigMap has changed since the pod started: restart the pod, so that the new "
                            "content is tested"
                        ),
                    )
        except Refused as error:
            problem = (error.reason, str(error))
        except (ApiError, RuntimeUnknown) as error:
            complaints.append(f"{workload}: its pod refers to objects that can't be read: {error}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # A field that Kubernetes got later than this code knows of must not keep the other workloads from a standby
            # pod.
            problem = ("NotUnderstood", f"the pod has an unexpected field: {type(error).__name__}")
        return ParentPod(
            workload=workload,
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            created=meta.get("creationTimestamp", ""),
            ready=ready,
            terminating=is_terminating(pod),
            digest=digest,
            problem=problem,
        )

    def _first(self, pod: Pod, workload: Workload, disk: Mapping[Workload, StoredWorkload]) -> bool:
        """Whether this is our own pod, which acts, on a node that has no standby pod of us yet.

        Then acting has to do: it isn't Ready before its standby pod is in place, and it isn't while any other pod waits
        to be kept, which would leave the node without what restores the others. Later standby pods have a
        predecessor to lose, and wait for a Ready pod.
        """
        stored = disk.get(workload)
        return self.own(pod) and pod["metadata"]["name"] == self.instance and not (stored and stored.newest)

    def _candidate(
        self, pod: Pod, workload: Workload, ports: Mapping[int, int]
    ) -> tuple[Candidate, dict[Key, Content]]:
        """What to keep of the pod, and each Secret and ConfigMap in it."""
        held: dict[Key, Content] = {}

        def fetch(kind: str, name: str) -> Mapping[str, bytes] | None:
            key = (kind, pod["metadata"]["namespace"], name)
            content = self._content(key)
            if content is None:
                return None
            held[key] = content
            return content.data

        return candidate(pod, workload, fetch, ports), held

    def _started_with(self, pod: Pod, key: Key, content: Content) -> bool:
        seen = self._provenance.started_with(pod, key)
        return predates(content.changed, pod) if seen is None else seen

    def _content(self, key: Key) -> Content | None:
        now, known = self.clock(), self._contents.get(key)
        if known is None or now - known[0] >= _REFRESH_SECONDS:
            known = self._contents[key] = (now, self.api.content(*key))
            self._provenance.see_content(key, known[1].data if known[1] else {}, now)
        return known[1]

    def _forget(self) -> None:
        now = self.clock()
        for key in [k for k, (at, _) in self._contents.items() if now - at >= 2 * _REFRESH_SECONDS]:
            del self._contents[key]
        for name in [n for n, (at, _) in self._locked.items() if now - at >= 2 * _REFRESH_SECONDS]:
            del self._locked[name]

    def _sandboxes(self, complaints: list[str]) -> list[Sandbox] | None:
        try:
            return self.machine.sandboxes()
        except RuntimeUnknown as error:
            complaints.append(str(error))
            return None

    def _standbys(
        self, disk: Mapping[Workload, StoredWorkload], sandboxes: list[Sandbox], state: ApiState
    ) -> dict[Workload, StandbySeen]:
        standbys: dict[Workload, StandbySeen] = {}
        for workload, stored in disk.items():
            number = stored.active_number
            if number is None:
                continue
            seen = standby_presence(workload, number, stored.active_containers, sandboxes)
            needed = stored.inventory({}).policy is Policy.API_AWAY and state is ApiState.AWAY
            standbys[workload] = StandbySeen(
                number, seen, needed and not seen.up and self.machine.blocked(workload, number)
            )
        return standbys

    def _have(self, disk: Mapping[Workload, StoredWorkload], state: ApiState, complaints: list[str]) -> dict[str, bool]:
        """Which images of the generations are here; asked again on each pass while a standby pod may have to start."""
        now, wanted = self.clock(), frozenset[str]().union(*(s.images for s in disk.values()))
        lasts = _REFRESH_SECONDS if state is ApiState.ANSWERING else 0.0
        stale = [i for i in wanted if i not in self._images or now - self._images[i][0] >= lasts]
        try:
            found = self.machine.images(stale) if stale else {}
        except RuntimeUnknown as error:
            complaints.append(str(error))
            found = {}
        self._images = {
            i: (now, found[i]) if i in found else self._images[i] for i in wanted if i in found or i not in stale
        }
        return {image: here for image, (_, here) in self._images.items()}

    def _leases(
        self, disk: Mapping[Workload, StoredWorkload], parents: tuple[ParentPod, ...], complaints: list[str]
    ) -> dict[Workload, LeaseSeen]:
        """Leases of workloads that may need a standby pod, or have one: a Ready pod here shows that it runs."""
        ready = {p.workload for p in parents if p.ready}
        leases: dict[Workload, LeaseSeen] = {}
        for workload, stored in disk.items():
            if stored.newest is None or not stored.newest.lease or (workload in ready and not stored.active):
                continue
            try:
                stamp, holder = self.api.lease(workload.namespace, stored.newest.lease)
            except ApiError as error:
                complaints.append(f"{workload}: its lease can't be read: {error}")
                continue
            leases[workload] = LeaseSeen(stamp, ours=holder.startswith(f"{workload.name}{POD_SUFFIX}-"))
        return leases


def _is_own(stored: StoredWorkload) -> bool:
    """Whether it is the checkpointer itself."""
    return stored.inventory({}).policy is Policy.ALWAYS


def _presences(
    disk: Mapping[Workload, StoredWorkload],
    parents: tuple[ParentPod, ...],
    candidates: Mapping[str, Candidate],
    sandboxes: list[Sandbox],
) -> dict[Workload, Presence]:
    expected: dict[Workload, tuple[str, ...]] = {w: s.newest.containers if s.newest else () for w, s in disk.items()}
    for parent in parents:
        made = candidates.get(parent.uid)
        if made is not None and not expected.get(parent.workload):
            expected[parent.workload] = tuple(c["name"] for c in made.manifest["spec"]["containers"])
    return {workload: presence(workload, names, sandboxes) for workload, names in expected.items()}


def lease_of(pod: Pod) -> str:
    """The name of the Lease that the pod's annotation points to; empty if there is none."""
    return str((pod["metadata"].get("annotations") or {}).get(LEASE, ""))
