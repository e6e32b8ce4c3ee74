"""The gate of the nodes: all are Ready, with a fresh heartbeat, without pressure; controllers are schedulable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import LEASES, NODES
from upgrader.gates.remedies import describe_node
from upgrader.model.cluster import Cluster
from upgrader.model.outcome import Verdict, holds, pending
from upgrader.model.workload import parse_time
from upgrader.ports import Clock, Kube, KubeObject

__all__ = ["NodesGate"]

_HEARTBEATS = "kube-node-lease"
_STALE = timedelta(seconds=40)
"""A kubelet renews its Lease every 10 s; the controller-manager allows it 40 to 50 s."""


@dataclass(frozen=True)
class NodesGate:
    """Every node of the cluster, and every controller and worker of the inventory."""

    kube: Kube
    clock: Clock
    cluster: Cluster

    @property
    def name(self) -> str:
        return "nodes"

    def check(self) -> Verdict:
        try:
            nodes = {item["metadata"]["name"]: item for item in self.kube.list(NODES)}
            leases = {item["metadata"]["name"]: item for item in self.kube.list(LEASES, _HEARTBEATS)}
        except ApiError as error:
            return unanswered("nodes", error)
        expected = [host.name for host in self.cluster.controllers + self.cluster.workers]
        problems = {name: "is not in the cluster" for name in expected if name not in nodes}
        controllers = {host.name for host in self.cluster.controllers}
        now = self.clock.now()
        for name, node in nodes.items():
            problem = _condition_problem(node) or _heartbeat_problem(leases.get(name), now)
            if not problem and name in controllers and (node.get("spec") or {}).get("unschedulable"):
                problem = f"is cordoned: no new control-plane pod can run there (kubectl uncordon {name})"
            if problem:
                problems[name] = problem
        if problems:
            first, *others = (f"node {name} {problem}" for name, problem in problems.items())
            more = f" (and {len(others)} more)" if others else ""
            return pending(first + more, *others, remedy=describe_node(next(iter(problems))))
        return holds(f"{len(nodes)} of {len(nodes)} nodes Ready")


def _condition_problem(node: KubeObject) -> str:
    conditions: dict[str, Any] = {item["type"]: item for item in (node.get("status") or {}).get("conditions") or ()}
    ready = conditions.pop("Ready", {"status": "Unknown", "message": "its kubelet has not reported yet"})
    if ready["status"] != "True":
        return f"is not Ready ({ready['status']}): {ready.get('message', '')}"
    for kind, condition in conditions.items():
        bad = kind.endswith("Pressure") or kind == "NetworkUnavailable"
        if bad and condition["status"] != "False":
            return f"has {kind} ({condition['status']}): {condition.get('message', '')}"
    return ""


def _heartbeat_problem(lease: KubeObject | None, now: datetime) -> str:
    """Without a controller-manager, `Ready` outlives the kubelet; the kubelet's own Lease doesn't."""
    renewed = parse_time((lease or {}).get("spec", {}).get("renewTime"))
    if renewed is None:
        return "has no heartbeat: its kubelet never renewed its Lease"
    if now - renewed > _STALE:
        return (
            f"has no fresh heartbeat: the last was {(now - renewed).total_seconds():.0f} s ago by this machine's clock"
        )
    return ""
