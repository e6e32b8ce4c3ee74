"""Objects of a large cluster, each with its key in etcd: copies of real ones of a lab, as JSON.

The API server reads JSON from etcd as it reads protobuf: it recognizes each by its beginning.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.ports import KubeObject

__all__ = ["NAMESPACES", "Sizes", "config_maps", "nodes", "pods"]

NAMESPACES = tuple(f"team-{number:03}" for number in range(100))
_CONTROL_PLANE = "node-role.kubernetes.io/"
_IMAGES = 50
"""As many as a kubelet reports."""


@dataclass(frozen=True)
class Sizes:
    """How many objects there are to be."""

    nodes: int = 5_000
    pods: int = 100_000
    config_maps: int = 20_000


def nodes(real: KubeObject, number: int) -> Iterator[tuple[str, bytes]]:
    """So many nodes like a real one, each with its addresses, without the marks of a controller."""
    template = _copy(real, "Node")
    template["metadata"]["labels"] = {
        key: value
        for key, value in template["metadata"]["labels"].items()
        if not key.startswith(_CONTROL_PLANE) and "load-balancer" not in key
    }
    template["metadata"]["labels"]["kubernetes.io/hostname"] = "NAME"
    template["spec"] = {"podCIDR": "POD-CIDR", "podCIDRs": ["POD-CIDR"]}
    status = template["status"]
    status["addresses"] = [{"type": "InternalIP", "address": "ADDRESS"}, {"type": "Hostname", "address": "NAME"}]
    status["nodeInfo"]["machineID"] = "MACHINE-ID"
    status["images"] = [
        {"names": [f"registry.example/a-team/a-service-{index:02}@sha256:{index:064x}"], "sizeBytes": 50_000_000}
        for index in range(_IMAGES)
    ]
    text = _compact(template)
    for index in range(number):
        name, unique = _node_name(index), _uid("node", index)
        filled = text.replace("NAME", name).replace("UID", unique).replace("MACHINE-ID", unique.replace("-", ""))
        filled = filled.replace("POD-CIDR", f"{_block(index)}.0/24").replace("ADDRESS", _address(index))
        yield f"/registry/minions/{name}", filled.encode()


def pods(real: KubeObject, daemon: KubeObject, number: int, on: int) -> Iterator[tuple[str, bytes]]:
    """So many pods on so many nodes: of each node's pods, the first is like `daemon`, in its namespace."""
    ordinary, system = _pod_text(real, "NAMESPACE"), _pod_text(daemon, daemon["metadata"]["namespace"])
    for index in range(number):
        node, on_node = index % on, index // on
        text, namespace = (ordinary, NAMESPACES[index % len(NAMESPACES)])
        if not on_node:
            text, namespace = system, daemon["metadata"]["namespace"]
        name = f"a-deployment-{index:06}-x7k2p"
        filled = text.replace("NAMESPACE", namespace).replace("NAME", name).replace("UID", _uid("pod", index))
        filled = filled.replace("ON-NODE", _node_name(node)).replace("HOST-IP", _address(node))
        filled = filled.replace("POD-IP", f"{_block(node)}.{on_node + 2}")
        yield f"/registry/pods/{namespace}/{name}", filled.encode()


def config_maps(number: int) -> Iterator[tuple[str, bytes]]:
    """So many ConfigMaps with a kilobyte each."""
    for index in range(number):
        namespace, name = NAMESPACES[index % len(NAMESPACES)], f"a-configuration-{index:05}"
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": _uid("config-map", index),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"settings": "x" * 1000}}
        yield f"/registry/configmaps/{namespace}/{name}", json.dumps(found).encode()


def _copy(real: KubeObject, kind: str) -> dict[str, Any]:
    """What the API server would have stored: without its version, which is etcd's, and with its kind."""
    found: dict[str, Any] = {"apiVersion": "v1", "kind": kind, **json.loads(json.dumps(real))}
    found["metadata"] |= {"name": "NAME", "uid": "UID"}
    for key in ("resourceVersion", "generateName"):
        found["metadata"].pop(key, None)
    return found


def _pod_text(real: KubeObject, namespace: str) -> str:
    template = _copy(real, "Pod")
    template["metadata"]["namespace"] = namespace
    template["spec"]["nodeName"] = "ON-NODE"
    status = template["status"]
    status |= {"hostIP": "HOST-IP", "hostIPs": [{"ip": "HOST-IP"}], "podIP": "POD-IP", "podIPs": [{"ip": "POD-IP"}]}
    if namespace == "NAMESPACE":
        template["metadata"]["labels"] = {"app": "a-deployment", "tier": "backend"}
    # A kubelet's entry alone has as many bytes as the rest of the pod.
    template["metadata"]["managedFields"] = template["metadata"].get("managedFields", [])[:1]
    return _compact(template)


def _compact(template: Mapping[str, Any]) -> str:
    return json.dumps(template, separators=(",", ":"))


def _node_name(index: int) -> str:
    return f"worker-{index:04}.example"


def _block(index: int) -> str:
    """The first three numbers of a node's pod CIDR."""
    return f"11.{index // 250}.{index % 250}"


def _address(index: int) -> str:
    return f"12.{index // 62_500}.{index // 250 % 250}.{index % 250 + 1}"


def _uid(kind: str, index: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {index}"))
