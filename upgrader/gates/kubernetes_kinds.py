"""The API resources that gates read."""

from __future__ import annotations

from upgrader.model.workload import WorkloadKind
from upgrader.ports import Kind

__all__ = [
    "CONFIG_MAPS",
    "CONTROLLER_REVISIONS",
    "EVENTS",
    "LEASES",
    "NODES",
    "PODS",
    "REPLICA_SETS",
    "WORKLOADS",
]

CONFIG_MAPS = Kind("v1", "configmaps")
CONTROLLER_REVISIONS = Kind("apps/v1", "controllerrevisions")
EVENTS = Kind("v1", "events")
LEASES = Kind("coordination.k8s.io/v1", "leases")
NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods")
REPLICA_SETS = Kind("apps/v1", "replicasets")
WORKLOADS: dict[WorkloadKind, Kind] = {
    "DaemonSet": Kind("apps/v1", "daemonsets"),
    "Deployment": Kind("apps/v1", "deployments"),
}
