"""What checks read, and the ports that they read through."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.model.cluster import Cluster
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Helm, Hosts, Kind, Kube

__all__ = ["DAEMONSETS", "DEPLOYMENTS", "NODES", "PODS", "SYSTEM", "PreflightContext"]

NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods")
DAEMONSETS = Kind("apps/v1", "daemonsets")
DEPLOYMENTS = Kind("apps/v1", "deployments")
SYSTEM = "kube-system"


@dataclass(frozen=True)
class PreflightContext:
    """The cluster, its observed state, the target version, and the ports for further reads."""

    kube: Kube
    hosts: Hosts
    helm: Helm
    clock: Clock
    cluster: Cluster
    target: KubernetesVersion
    observed: Observed
    helm_timeout_seconds: float
    """No Helm still works on a release that has been pending for longer than this."""
    changing: frozenset[str] = frozenset()
    """The releases that the run installs or changes."""
