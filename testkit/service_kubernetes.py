"""What clients of Service `kubernetes` read."""

from __future__ import annotations

from collections.abc import Mapping

from upgrader.ports import Kind, Kube

__all__ = ["controllers_addresses", "named_api_servers"]

_ENDPOINTS, _NODES = Kind("v1", "endpoints"), Kind("v1", "nodes", namespaced=False)
_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")


def named_api_servers(kube: Kube) -> Mapping[str, set[str]]:
    """The addresses of API servers in Endpoints and in the EndpointSlice `kubernetes`, and in all of its Service."""
    endpoints = kube.get(_ENDPOINTS, "kubernetes", "default") or {}
    slices = kube.list(_SLICES, "default", labels="kubernetes.io/service-name=kubernetes")
    by_name = {
        item["metadata"]["name"]: {address for end in item.get("endpoints") or () for address in end["addresses"]}
        for item in slices
    }
    return {
        "Endpoints": {each["ip"] for part in endpoints.get("subsets") or () for each in part.get("addresses") or ()},
        "EndpointSlice": by_name.get("kubernetes", set()),
        "Service": set().union(*by_name.values()),
    }


def controllers_addresses(kube: Kube) -> set[str]:
    """The addresses of the controllers, as their nodes have them."""
    nodes = kube.list(_NODES, labels="node-role.kubernetes.io/control-plane")
    found = (each for node in nodes for each in node["status"]["addresses"])
    return {each["address"] for each in found if each["type"] == "InternalIP"}
