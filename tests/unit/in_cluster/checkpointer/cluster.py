"""A cluster and a node to run whole passes on: everything but the disk is made up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.in_cluster.checkpointer.builders import Json, pod
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiUnknown, RuntimeUnknown
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.in_cluster.checkpointer.loop import Loop
from upgrader.in_cluster.checkpointer.observation.observer import Observer
from upgrader.in_cluster.checkpointer.observed_values import Content, Owner
from upgrader.in_cluster.checkpointer.reporting.pass_report import Board
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod
from upgrader.in_cluster.checkpointer.storage.node_lock import NodeLock
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.cri import Container, Sandbox
from upgrader.onhost.node.workload_policy import Workload

OWN = Workload("kube-system", "pod-checkpointer")


@dataclass
class Cluster:
    """What the checkpointer sees of a cluster; `error` is raised by every request; `missing`: images not here.

    `unreadable`: names of what may not be read or written; `images_unknown`: the runtime doesn't answer for images.
    `locked`: image → why no static pod can use it; `manifests`: static pods of others on the node; `others_serve`:
    whether another API server answers; `here`: whether the kubelet's own address for the API leads to this node.
    """

    found: list[Json] = field(default_factory=list)
    contents: dict[tuple[str, str, str], Content] = field(default_factory=dict)
    sandboxes: list[Sandbox] | None = field(default_factory=list)
    error: Exception | None = None
    leases: dict[str, tuple[str, str]] = field(default_factory=dict)
    conditions: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    etcd_is_away: bool = False
    owners: dict[str, Owner | None] = field(default_factory=dict)
    unready: str = ""
    shared_port: bool = False
    unreadable: set[str] = field(default_factory=set)
    images_unknown: bool = False
    now: float = 0.0
    locked: dict[str, str] = field(default_factory=dict)
    manifests: set[Workload] = field(default_factory=set)
    others_serve: bool = False
    here: bool = False
    balanced: bool = False

    def pods(self) -> list[Pod]:
        """Pods of the node."""
        if self.error:
            raise self.error
        return list(self.found)

    def content(self, kind: str, namespace: str, name: str) -> Content | None:
        """A Secret's or ConfigMap's content."""
        self._may(name)
        return self.contents.get((kind, namespace, name))

    def owner(self, kind: str, namespace: str, name: str) -> Owner | None:
        """A workload; one that wasn't added can't be read."""
        if name not in self.owners:
            raise ApiUnknown("403")
        return self.owners[name]

    def is_here(self) -> bool:
        """Where the kubelet finds the API."""
        return self.here

    def leads_elsewhere(self) -> bool:
        """Whether a load balancer on the node leads to others, too."""
        return self.balanced

    def serves_elsewhere(self) -> bool:
        """Another API server."""
        return self.others_serve

    def lease(self, namespace: str, name: str) -> tuple[str, str]:
        """A Lease."""
        self._may(name)
        return self.leases[name]

    def set_condition(self, namespace: str, pod: str, status: str, reason: str, message: str, now: str) -> None:
        """Remember the condition, and show it on the pod as the API would."""
        self._may(pod)
        self.conditions[pod] = (status, reason, message)
        condition = {"type": "checkpointer.upgrader.io/Checkpointed", "status": status, "reason": reason}
        for found in self.found:
            if found["metadata"]["name"] == pod:
                kept = [c for c in found["status"]["conditions"] if c["type"] == "Ready"]
                found["status"]["conditions"] = [*kept, {**condition, "message": message}]

    def _may(self, name: str) -> None:
        if name in self.unreadable:
            raise ApiUnknown(f"{name}: 403")

    def clock(self) -> float:
        """Time that only tests move."""
        return self.now


@dataclass
class Machine:
    """What the checkpointer sees of the node."""

    cluster: Cluster

    def sandboxes(self) -> list[Sandbox]:
        """What the runtime reports."""
        if self.cluster.sandboxes is None:
            raise RuntimeUnknown("containerd is down")
        return self.cluster.sandboxes

    def images(self, names: Iterable[str]) -> dict[str, bool]:
        """Which images are here."""
        self.sandboxes()
        if self.cluster.images_unknown:
            raise RuntimeUnknown("the image service is down")
        return {name: name not in self.cluster.missing for name in names}

    def locked(self, names: Iterable[str]) -> dict[str, str]:
        """What no static pod can use."""
        self.sandboxes()
        return {name: self.cluster.locked[name] for name in names if name in self.cluster.locked}

    def static_pods(self) -> frozenset[Workload]:
        """Static pods of others."""
        return frozenset(self.cluster.manifests)

    def unready(self, pod: Pod, instances: int) -> str:
        """What the pod's own probes report; with `shared_port`, only one instance listens."""
        if self.cluster.shared_port and instances > 1:
            return "another instance may have answered"
        return self.cluster.unready

    def blocked(self, workload: Workload, number: int) -> bool:
        """Whether etcd is unreachable."""
        return self.cluster.etcd_is_away


def sandbox(name: str = "kube-apiserver-abc-x1") -> Sandbox:
    """A pod that runs."""
    labels = {"pod-template-hash": "abc"}
    container = Container(f"c-{name}", f"s-{name}", "main", "running", 1)
    return Sandbox(f"s-{name}", "kube-system", name, True, False, labels, (container,))


def standby_of(number: int, workload: str = "kube-apiserver", up: bool = True) -> Sandbox:
    """Our standby pod of a workload, from that generation; its sandbox alone when it isn't up."""
    identity = f"{workload}-copy-{number}"
    labels = {"checkpointer.upgrader.io/checkpoint-of": workload}
    containers = (Container(f"c-{identity}", identity, "main", "running" if up else "exited", 1),)
    return Sandbox(
        identity, "kube-system", f"{workload}-checkpoint-controller-1", True, True, labels, containers, number
    )


def own_pod() -> Json:
    """The checkpointer's own pod."""
    return pod(name="pod-checkpointer-abcde", owner=("DaemonSet", "pod-checkpointer"), uid="own")


def instance(root: Path, cluster: Cluster, name: str = "pod-checkpointer-abcde", standby: bool = False) -> Loop:
    """An instance of the checkpointer on the node, in the pod of that name."""

    def own(found: Pod) -> bool:
        return bool(found["metadata"]["ownerReferences"][0]["name"] == "pod-checkpointer")

    store = Store(root)
    return Loop(
        store=store,
        lock=NodeLock(store.folder / "lock", 10281 if standby else 10280),
        observer=Observer(cluster, Machine(cluster), own, name, {10280: 10281}, cluster.clock),
        conditions=cluster,
        board=Board(),
        settings=Settings(ready_for=10, grace=10, release_after=10),
        interval_seconds=2,
        node="controller-1",
        own=own,
        standby=standby,
        clock=cluster.clock,
    )


def passes(loop: Loop, cluster: Cluster, seconds: float) -> None:
    """Passes two seconds apart."""
    for _ in range(int(seconds // 2) + 1):
        cluster.now += 2
        loop.once()
