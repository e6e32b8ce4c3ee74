"""The controllers' own addresses, as their kubelets registered them: where the charts' kube-apiservers listen."""

from __future__ import annotations

from upgrader.errors import Blocked
from upgrader.model.cluster import Cluster, Host
from upgrader.ports import Kind, Kube

__all__ = ["node_address", "node_addresses"]

_NODES = Kind("v1", "nodes", namespaced=False)


def node_addresses(kube: Kube, cluster: Cluster) -> tuple[str, ...]:
    """One for each controller, in order. Raises Blocked for a controller without one, and ApiError."""
    return tuple(node_address(kube, host) for host in cluster.controllers)


def node_address(kube: Kube, host: Host) -> str:
    """That of one controller; the address that SSH uses may be a name, or a public one. Raises as above."""
    status = (kube.get(_NODES, host.name) or {}).get("status") or {}
    own = [item["address"] for item in status.get("addresses") or () if item["type"] == "InternalIP"]
    if not own:
        raise Blocked(
            f"node {host.name} has no InternalIP for its kube-apiserver to listen on",
            remedy=f"Check the controller's name in the inventory, and its node: kubectl describe node {host.name}",
        )
    return str(own[0])
