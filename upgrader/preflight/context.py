"""What checks look at, and through."""

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
    """The cluster, what was observed of it, where it should go, and the ports to look closer with."""

    kube: Kube
    hosts: Hosts
    helm: Helm
    clock: Clock
    cluster: Cluster
    target: KubernetesVersion
    observed: Observed
    helm_timeout_seconds: float
    """A release that has been pending for longer than this belongs to no Helm that is still at work."""
    changing: frozenset[str] = frozenset()
    """The releases that the run installs or changes."""
