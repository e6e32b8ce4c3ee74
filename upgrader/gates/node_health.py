"""Which nodes are healthy: by their conditions, and by a heartbeat that is seen to change.

A heartbeat's time is the node's own clock, and no two machines' clocks are compared: a kubelet lives when its Lease
changes while it is watched, and the time between two readings is this machine's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import LEASES, NODES
from upgrader.ports import Clock, Kube, KubeObject

__all__ = [
    "HEARTBEATS",
    "LEASES_AT_ONCE",
    "NOT_SEEN",
    "NodeHealth",
    "NodeMemory",
    "condition_problem",
    "is_unreachable",
    "unreachable_nodes",
]

HEARTBEATS = "kube-node-lease"
"""The namespace of the kubelets' Leases."""

NOT_SEEN = "has shown no heartbeat yet (its kubelet renews its Lease every 10 s)"
"""The problem of a node whose Lease was not watched for long enough to know."""

_UNREACHABLE = "node.kubernetes.io/unreachable"
"""The taint that kube-controller-manager gives a node whose kubelet has been silent for too long."""

_STALE_SECONDS = 40.0
"""A kubelet renews its Lease every 10 s; the controller-manager allows it 40 to 50 s."""

_WORKERS_SECONDS = 5.0
"""How old a reading of the workers may be: there may be thousands."""

_AT_ONCE, LEASES_AT_ONCE = 500, 1_250
"""Nodes, and Leases, in one answer: none of them is kept. A Lease is a kilobyte, a node with its images ten of them."""

_GLANCE_SECONDS = 10.0
"""How often heartbeats are read while something else is waited for."""


@dataclass(frozen=True)
class _Heartbeat:
    """A Lease as it was last read; times are this process's monotonic clock."""

    value: str
    duration_seconds: float
    read: float
    """When it was last read."""
    since: float
    """When this value was first read."""
    renewed: float | None = None
    """The earliest time at which it may have got this value: that of the reading before; None: not seen to change."""

    @property
    def allowed_seconds(self) -> float:
        return max(_STALE_SECONDS, self.duration_seconds)


@dataclass(frozen=True)
class _Worker:
    """A node that is no controller, as it was last read."""

    problem: str
    cordoned: bool


@dataclass
class NodeMemory:
    """What one process has seen of the nodes; all its gates share it, so that a heartbeat is waited for once."""

    heartbeats: dict[str, _Heartbeat] = field(default_factory=dict)
    glanced: float | None = None
    workers: dict[str, _Worker] = field(default_factory=dict)
    workers_read: float | None = None


@dataclass(frozen=True)
class NodeHealth:
    """Reads nodes: controllers each time, by name; the others together, and not more often than needed."""

    kube: Kube
    clock: Clock
    controller_names: tuple[str, ...]
    memory: NodeMemory

    def glance(self) -> None:
        """Read the heartbeats now and then, so that a later check knows them; an API that doesn't answer is no news."""
        now, last = self.clock.monotonic(), self.memory.glanced
        if last is not None and now - last < _GLANCE_SECONDS:
            return
        try:
            self._read_heartbeats()
        except ApiError:
            return

    def controllers(self) -> dict[str, str]:
        """Each controller's problem, "" for a healthy one. Raises ApiError."""
        return {name: self._controller(name) for name in self.controller_names}

    def workers(self) -> dict[str, str]:
        """The problem of each other node of the cluster, "" for a healthy one. Raises ApiError."""
        memory = self.memory
        self._read_workers()
        return {name: worker.problem or self._heartbeat_problem(name) for name, worker in memory.workers.items()}

    def absent(self, known: Collection[str] | None) -> frozenset[str]:
        """The workers whose pods say nothing of a step: known to be down, cordoned, or not among the `known` ones.

        None: all are known. Raises ApiError.
        """
        self._read_workers()

        def is_absent(name: str, worker: _Worker) -> bool:
            new = known is not None and name not in known
            return bool(worker.problem) or worker.cordoned or new or self._silent(name)

        return frozenset(name for name, worker in self.memory.workers.items() if is_absent(name, worker))

    def _controller(self, name: str) -> str:
        node = self.kube.get(NODES, name)
        if node is None:
            return "is not in the cluster"
        self._note(name, self.kube.get(LEASES, name, HEARTBEATS))
        problem = condition_problem(node) or self._heartbeat_problem(name)
        if not problem and (node.get("spec") or {}).get("unschedulable"):
            problem = f"is cordoned: no new control-plane pod can run there (kubectl uncordon {name})"
        return problem

    def _read_workers(self) -> None:
        memory, now = self.memory, self.clock.monotonic()
        if memory.workers_read is not None and now - memory.workers_read < _WORKERS_SECONDS:
            return
        workers = {
            item["metadata"]["name"]: _Worker(
                condition_problem(item), bool((item.get("spec") or {}).get("unschedulable"))
            )
            for item in self.kube.each(NODES, at_once=_AT_ONCE)
            if item["metadata"]["name"] not in self.controller_names
        }
        self._read_heartbeats()
        memory.workers, memory.workers_read = workers, now

    def _read_heartbeats(self) -> None:
        for lease in self.kube.each(LEASES, HEARTBEATS, at_once=LEASES_AT_ONCE):
            self._note(lease["metadata"]["name"], lease)
        self.memory.glanced = self.clock.monotonic()

    def _note(self, name: str, lease: KubeObject | None) -> None:
        now, beats = self.clock.monotonic(), self.memory.heartbeats
        spec = (lease or {}).get("spec") or {}
        value, duration = str(spec.get("renewTime") or ""), float(spec.get("leaseDurationSeconds") or 0)
        before = beats.get(name)
        if before is None or not value:
            beats[name] = _Heartbeat(value, duration, read=now, since=now)
        elif value == before.value:
            beats[name] = replace(before, read=now)
        else:
            beats[name] = _Heartbeat(value, duration, read=now, since=now, renewed=before.read)

    def _heartbeat_problem(self, name: str) -> str:
        """Without a controller-manager, `Ready` outlives the kubelet; the kubelet's own Lease doesn't."""
        beat = self.memory.heartbeats.get(name)
        if beat is None or not beat.value:
            return "has no heartbeat: its kubelet never renewed its Lease"
        now = self.clock.monotonic()
        if beat.renewed is not None and now - beat.renewed <= beat.allowed_seconds:
            return ""
        watched = now - beat.since
        if watched > beat.allowed_seconds:
            return f"has no heartbeat: its kubelet has not renewed its Lease for {watched:.0f} s"
        return NOT_SEEN

    def _silent(self, name: str) -> bool:
        """Whether its kubelet is known to be silent, rather than not known to live."""
        beat = self.memory.heartbeats.get(name)
        return beat is None or not beat.value or beat.read - beat.since > beat.allowed_seconds


def condition_problem(node: KubeObject) -> str:
    """What a node's conditions say against it: not Ready, or under pressure; "" when nothing does."""
    conditions: Mapping[str, Any] = {item["type"]: item for item in (node.get("status") or {}).get("conditions") or ()}
    ready = conditions.get("Ready", {"status": "Unknown", "message": "its kubelet has not reported yet"})
    if ready["status"] != "True":
        return f"is not Ready ({ready['status']}): {ready.get('message', '')}"
    for kind, condition in conditions.items():
        bad = kind.endswith("Pressure") or kind == "NetworkUnavailable"
        if bad and condition["status"] != "False":
            return f"has {kind} ({condition['status']}): {condition.get('message', '')}"
    return ""


def is_unreachable(node: KubeObject) -> bool:
    """Whether its machine or its kubelet is down, as kube-controller-manager has it: it alone may only be late."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((item["status"] for item in conditions if item["type"] == "Ready"), "")
    taints = (node.get("spec") or {}).get("taints") or ()
    return ready == "Unknown" and any(taint.get("key") == _UNREACHABLE for taint in taints)


def unreachable_nodes(kube: Kube) -> dict[str, KubeObject]:
    """The nodes whose machine or kubelet is down now, by their names. Raises ApiError."""
    nodes = (node for node in kube.each(NODES, at_once=_AT_ONCE) if is_unreachable(node))
    return {str(node["metadata"]["name"]): node for node in nodes}
