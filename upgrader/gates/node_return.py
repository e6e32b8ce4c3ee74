"""Whether a node whose kubelet was restarted is back: Ready, of the right version, with its critical pods."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from upgrader.gates.critical_workloads import critical_pods_on
from upgrader.gates.kubernetes_kinds import LEASES, NODES
from upgrader.gates.node_health import HEARTBEATS, condition_problem
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kube

__all__ = ["NodeReturn"]

_BEATS = 2
"""Heartbeats to wait for: a kubelet that ends soon after its start has renewed its Lease once."""


@dataclass(frozen=True)
class NodeReturn:
    """Readings of single nodes. Every one raises ApiError."""

    kube: Kube
    unready_before: Collection[str] = ()
    """The critical workloads that were not Ready before the run: they are ignored."""

    def problem(self, name: str) -> str:
        """What a node's conditions say against it; "" when nothing does."""
        node = self.kube.get(NODES, name)
        return condition_problem(node) if node is not None else "is not in the cluster"

    def back(self, name: str, *versions: KubernetesVersion, with_pods: bool = True) -> Callable[[], str]:
        """Asks what is still missing; "": nothing. Without `with_pods`, its critical pods don't count.

        `Ready` outlives a kubelet, and the first heartbeat that is read may be from before it was restarted. So only
        heartbeats count that are seen to change.
        """
        seen: list[str] = []

        def missing() -> str:
            node = self.kube.get(NODES, name)
            if node is None:
                return "it is not in the cluster"
            lease = self.kube.get(LEASES, name, HEARTBEATS) or {}
            beat = str((lease.get("spec") or {}).get("renewTime") or "")
            if beat and beat not in seen[-1:]:
                seen.append(beat)
            problem = condition_problem(node)
            if problem:
                return f"it {problem}"
            reported = str(node["status"]["nodeInfo"]["kubeletVersion"])
            if KubernetesVersion.known(reported) not in versions:
                return f"its kubelet reports {reported}"
            if len(seen) <= _BEATS:
                return f"its kubelet has renewed its Lease {max(0, len(seen) - 1)} times ({_BEATS} needed)"
            if not with_pods:
                return ""
            unready = [pod for pod in critical_pods_on(self.kube, name) if not pod.ready]
            waiting = [pod.name for pod in unready if pod.workload not in self.unready_before]
            return f"its critical pods are not Ready: {', '.join(waiting)}" if waiting else ""

        return missing
