"""The critical pods, without a read of all: on controllers by node, elsewhere by workload.

Those are of kube-system, and of other namespaces what a node itself can't do without: network plugins, as flannel and
Calico, have namespaces of their own. Any application may call itself critical to the cluster: that is its owner's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.gates.kubernetes_kinds import LEASES, NODES, PODS, WORKLOADS
from upgrader.gates.node_health import HEARTBEATS, LEASES_AT_ONCE, condition_problem, unreachable_nodes
from upgrader.model.cluster import Cluster
from upgrader.model.health_before import HealthBefore
from upgrader.model.workload import Pod, selector_of
from upgrader.ports import Kube, KubeObject

__all__ = [
    "SYSTEM",
    "CriticalWorkload",
    "critical_pods_on",
    "read_health_before",
    "short_workloads",
    "unready_workloads",
]

SYSTEM = "kube-system"
_OF_NODES = frozenset({"system-node-critical"})
_CRITICAL = _OF_NODES | {"system-cluster-critical"}
_NODES_AT_ONCE = 500


@dataclass(frozen=True)
class CriticalWorkload:
    """A workload, named as `Pod.workload` does, and its pods' label selector."""

    name: str
    namespace: str
    selector: str

    @property
    def of_nodes(self) -> bool:
        """Whether it has a pod on each node, and nowhere else."""
        return self.name.startswith("DaemonSet ")


def critical_pods_on(kube: Kube, node: str) -> tuple[Pod, ...]:
    """A node's critical pods, but for finished, terminating and standby pods. Raises ApiError."""
    pods = (Pod.parse(item) for item in kube.list(PODS, fields=f"spec.nodeName={node}"))
    return tuple(
        pod
        for pod in pods
        if _is_critical(pod.namespace, pod.priority_class) and not (pod.finished or pod.deleting or pod.is_checkpoint)
    )


def short_workloads(kube: Kube) -> tuple[CriticalWorkload, ...]:
    """The critical workloads that have a pod which isn't Ready, by their controllers' counts. Raises ApiError."""
    return tuple(
        CriticalWorkload(
            f"{kind} {item['metadata']['name']}",
            item["metadata"].get("namespace", ""),
            selector_of(item["spec"].get("selector") or {}),
        )
        for kind, api in WORKLOADS.items()
        # What each node needs is a DaemonSet. Of the others a large cluster has thousands elsewhere.
        for item in kube.list(api, "" if kind == "DaemonSet" else SYSTEM)
        if _is_critical(item["metadata"].get("namespace", ""), _priority_class(item))
        and _is_short(kind, item["spec"], item.get("status") or {})
    )


def read_health_before(kube: Kube, cluster: Cluster) -> HealthBefore:
    """The workers and critical workloads as they are now. Raises ApiError.

    A node without a heartbeat isn't known to live: a virtual kubelet may report its status alone, and renew no Lease.
    """
    controllers = {host.name for host in cluster.controllers}
    nodes = (node for node in kube.each(NODES, at_once=_NODES_AT_ONCE) if node["metadata"]["name"] not in controllers)
    ready = {node["metadata"]["name"] for node in nodes if not condition_problem(node)}
    leases = kube.each(LEASES, HEARTBEATS, at_once=LEASES_AT_ONCE)
    alive = {lease["metadata"]["name"] for lease in leases if (lease.get("spec") or {}).get("renewTime")}
    return HealthBefore(tuple(sorted(ready & alive)), unready_workloads(kube, cluster))


def unready_workloads(kube: Kube, cluster: Cluster) -> tuple[str, ...]:
    """The critical workloads of which not every pod is Ready, as `DaemonSet cilium`. Raises ApiError."""
    short = short_workloads(kube)
    # A DaemonSet that lacks pods only where no node is up is healthy: behind each step it is asked for as before. What
    # others lack there is to run elsewhere.
    down = unreachable_nodes(kube) if short else {}
    unready = {item.name for item in short if not (down and item.of_nodes and _only_on(kube, item, down))}
    on_controllers = (pod for host in cluster.controllers for pod in critical_pods_on(kube, host.name))
    return tuple(sorted(unready | {pod.workload for pod in on_controllers if not pod.ready}))


def _only_on(kube: Kube, workload: CriticalWorkload, nodes: Collection[str]) -> bool:
    """Whether these nodes have each of its pods that isn't Ready, and at least one."""
    pods = [Pod.parse(item) for item in kube.list(PODS, workload.namespace, labels=workload.selector)]
    unready = [pod for pod in pods if not (pod.ready or pod.finished or pod.is_checkpoint)]
    return bool(unready) and all(pod.node in nodes for pod in unready)


def _is_critical(namespace: str, priority_class: str) -> bool:
    return priority_class in (_CRITICAL if namespace == SYSTEM else _OF_NODES)


def _priority_class(item: KubeObject) -> str:
    template = item["spec"].get("template") or {}
    return str((template.get("spec") or {}).get("priorityClassName", ""))


def _is_short(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    if kind == "DaemonSet":
        return int(status.get("numberReady", 0)) < int(status.get("desiredNumberScheduled", 0))
    ready = int(status.get("readyReplicas", 0))
    # A pod of a new revision that isn't Ready stands beside the Ready ones of the old.
    return ready < max(int(spec.get("replicas", 1)), int(status.get("replicas", 0)))
