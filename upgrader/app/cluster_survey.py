"""What a live cluster tells of itself to somebody who has no folder for it yet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from upgrader.app.observe_cluster import server_version
from upgrader.errors import Blocked
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["FoundCluster", "FoundNode", "survey"]

_NODES = Kind("v1", "nodes", namespaced=False)
_PODS, _CONFIG_MAPS = Kind("v1", "pods"), Kind("v1", "configmaps")
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_SYSTEM = "kube-system"
_CONTROLLER = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_RELEASE = "meta.helm.sh/release-name"
_STATIC = "kubernetes.io/config.mirror"


@dataclass(frozen=True)
class FoundNode:
    """A node, with its internal address."""

    name: str
    address: str
    kubelet: str


@dataclass(frozen=True)
class FoundCluster:
    """What runs, and where. `kind`: kubeadm's static pods, which can be adopted, or releases of upgrader's charts."""

    version: KubernetesVersion
    kind: Literal["kubeadm", "self-hosted"]
    controllers: tuple[FoundNode, ...]
    workers: tuple[FoundNode, ...]


def survey(kube: Kube) -> FoundCluster:
    """Reads only. Raises ApiError, and Blocked for a control plane of another making."""
    version = server_version(kube).binary
    controllers, workers = list[FoundNode](), list[FoundNode]()
    for node in kube.each(_NODES):
        is_controller = any(label in (node["metadata"].get("labels") or {}) for label in _CONTROLLER)
        (controllers if is_controller else workers).append(_node(node))
    if not controllers:
        raise Blocked(
            "no node has the label node-role.kubernetes.io/control-plane; nothing was written",
            remedy="A managed control plane is upgraded by its provider. Otherwise, label the nodes that run "
            "kube-apiserver.",
        )
    return FoundCluster(version, _kind(kube), _sorted(controllers), _sorted(workers))


def _sorted(nodes: Iterable[FoundNode]) -> tuple[FoundNode, ...]:
    return tuple(sorted(nodes, key=lambda node: node.name))


def _node(item: KubeObject) -> FoundNode:
    status = item.get("status") or {}
    name = str(item["metadata"]["name"])
    own = [str(each["address"]) for each in status.get("addresses") or () if each["type"] == "InternalIP"]
    own = [address for address in own if _is_address(address)]
    return FoundNode(name, own[0] if own else name, str((status.get("nodeInfo") or {}).get("kubeletVersion", "")))


def _is_address(text: str) -> bool:
    """Whether that is an IP address, and nothing else. It becomes a line of an inventory, where Ansible would carry a
    template out, and ssh an option; its node's kubelet writes it, and an API server takes any text.
    """
    try:
        return "%" not in text and bool(ipaddress.ip_address(text))  # behind a %, Python's may have anything
    except ValueError:
        return False


def _kind(kube: Kube) -> Literal["kubeadm", "self-hosted"]:
    deployment = kube.get(_DEPLOYMENTS, "kube-apiserver", _SYSTEM)
    if deployment is not None and _RELEASE in (deployment["metadata"].get("annotations") or {}):
        return "self-hosted"
    static = [
        item["metadata"]["name"]
        for item in kube.list(_PODS, _SYSTEM, labels="component=kube-apiserver")
        if _STATIC in (item["metadata"].get("annotations") or {})
    ]
    if static and kube.get(_CONFIG_MAPS, "kubeadm-config", _SYSTEM) is not None:
        return "kubeadm"
    what = (
        f"kube-apiserver runs as static pods ({', '.join(static)}) without kubeadm's ConfigMap kubeadm-config"
        if static
        else "no static pod of kube-apiserver was found in kube-system"
    )
    raise Blocked(
        f"the control plane is neither kubeadm's nor from upgrader's charts: {what}; nothing was written",
        remedy="upgrader supports its own charts, and can adopt kubeadm control planes (docs/kubeadm.md).",
    )
