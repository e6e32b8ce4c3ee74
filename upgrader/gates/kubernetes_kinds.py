"""The API resources that gates read."""

from __future__ import annotations

from upgrader.model.workload import WorkloadKind
from upgrader.ports import Kind

__all__ = [
    "API_SERVICES",
    "CONFIG_MAPS",
    "CONTROLLER_REVISIONS",
    "ENDPOINT_SLICES",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "POD_PROTECTORS",
    "REPLICA_SETS",
    "SECRETS",
    "SERVICES",
    "SERVICE_ACCOUNTS",
    "SERVICE_CIDRS",
    "STATEFUL_SETS",
    "WORKLOADS",
]

API_SERVICES = Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False)
CONFIG_MAPS = Kind("v1", "configmaps")
CONTROLLER_REVISIONS = Kind("apps/v1", "controllerrevisions")
ENDPOINT_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
EVENTS = Kind("v1", "events")
LEASES = Kind("coordination.k8s.io/v1", "leases")
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods")
POD_PROTECTORS = Kind("podseidon.kubewharf.io/v1alpha1", "podprotectors")
REPLICA_SETS = Kind("apps/v1", "replicasets")
SECRETS = Kind("v1", "secrets")
SERVICES = Kind("v1", "services")
SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts")
SERVICE_CIDRS = Kind("networking.k8s.io/v1", "servicecidrs", namespaced=False)
STATEFUL_SETS = Kind("apps/v1", "statefulsets")
WORKLOADS: dict[WorkloadKind, Kind] = {
    "DaemonSet": Kind("apps/v1", "daemonsets"),
    "Deployment": Kind("apps/v1", "deployments"),
    "StatefulSet": STATEFUL_SETS,
}
