"""Controllers that kubeadm added to a cluster that was adopted before: which they are, and whether they can be adopted.

Reads only. What can't be adopted is refused by name, before anything changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.node_withdrawal import CONTROL_PLANE
from upgrader.errors import Blocked, UsageError
from upgrader.model.cluster import Cluster
from upgrader.model.manifest import objects_in
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Hosts, Kind, Kube, KubeObject

__all__ = ["check_listed", "check_node_files", "check_version", "deployed_version", "joined", "running_version"]

_NODES = Kind("v1", "nodes", namespaced=False)
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_SYSTEM = "kube-system"
_MISSING = 'for file; do [ -e "$file" ] || echo "$file"; done'


def running_version(kube: Kube) -> KubernetesVersion:
    """That of the release, whatever a new controller's own kube-apiserver answers. Raises Blocked where there is
    none: the cluster was not adopted.
    """
    version = deployed_version(kube, "kube-apiserver")
    if version is None:
        raise Blocked(
            "Deployment kube-system/kube-apiserver of a release does not exist: this cluster was not adopted yet",
            remedy="Adopt all its controllers together: upgrader adopt",
        )
    return version


def deployed_version(kube: Kube, deployment: str) -> KubernetesVersion | None:
    """The version of Kubernetes that a Deployment of a release has; None where there is no such Deployment."""
    found = kube.get(_DEPLOYMENTS, deployment, _SYSTEM)
    labels = (found["metadata"].get("labels") or {}) if found else {}
    return KubernetesVersion.known(str(labels.get("app.kubernetes.io/version", "")))


def check_listed(kube: Kube, cluster: Cluster) -> None:
    """The inventory's controllers are those that are labelled so. Raises Blocked, and says what to write."""
    nodes = {node["metadata"]["name"]: node for node in kube.list(_NODES, labels=CONTROL_PLANE)}
    listed = {host.name for host in cluster.controllers}
    if unlisted := sorted(nodes.keys() - listed):
        lines = "".join(f"\n    {name}:\n      ansible_host: {_address(nodes[name])}" for name in unlisted)
        raise Blocked(
            f"{', '.join(unlisted)}: has the label {CONTROL_PLANE}, but is not in the inventory",
            remedy=f"Add it to the hosts of the group `controllers` in {cluster.inventory.name}, and run the same "
            f"command again:{lines}",
        )
    absent = sorted(listed - nodes.keys())
    if unlabelled := [name for name in absent if kube.get(_NODES, name)]:
        raise Blocked(
            f"{', '.join(unlabelled)}: a controller in the inventory, but its node lacks the label {CONTROL_PLANE}",
            remedy="The undo of an adoption removes the label for a while, and may have been interrupted. To restore "
            f"it: kubectl label node {' '.join(unlabelled)} {CONTROL_PLANE}=\nIf `upgrader controllers remove` "
            "removed it, run that again instead, then remove the controller from the group `controllers`.",
        )
    if absent:
        raise Blocked(
            f"{', '.join(absent)}: a controller in the inventory, but not a node with the label {CONTROL_PLANE}",
            remedy="Join it first (kubeadm join --control-plane), or remove it from the group `controllers`.",
        )


def _address(node: KubeObject) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((str(item["address"]) for item in addresses if item["type"] == "InternalIP"), "its address for SSH")


def joined(controllers: Sequence[ControllerFacts]) -> tuple[ControllerFacts, ...]:
    """Those on which kubeadm's static pods run. Raises Blocked where these are all: none has been adopted."""
    found = tuple(each for each in controllers if each.active)
    if found and len(found) == len(controllers):
        raise Blocked(
            "kubeadm's static pods run on every controller: this adoption was not finished, or was undone",
            remedy="Adopt all of them together: upgrader adopt",
        )
    return found


def check_version(new: Sequence[ControllerFacts], version: KubernetesVersion) -> None:
    """kubeadm made its static pods of the version that runs. Raises Blocked."""
    for controller in new:
        for component, pod in controller.active.items():
            tag = "" if "@" in pod.image else pod.image.rpartition(":")[2]
            try:
                differs = KubernetesVersion.parse(tag) != version
            except UsageError:
                continue  # a digest, or a registry's own tag: its version isn't known from here
            if differs:
                raise Blocked(
                    f"{controller.host.name}: kubeadm's {component} there has version {tag}, but the releases run "
                    f"{version}",
                    remedy=f"Remove {controller.host.name} again (kubeadm reset; kubectl delete node), correct "
                    "`kubernetesVersion` in ConfigMap kube-system/kubeadm-config, and join it again with "
                    f"kubeadm {version}.",
                )


def check_node_files(hosts: Hosts, new: Sequence[ControllerFacts], manifests: Sequence[str]) -> None:
    """What the releases' pods mount from a controller is there: files of the operator's own, such as an audit policy,
    are nothing that kubeadm brings to a new controller. Raises Blocked.
    """
    wanted = sorted({path for manifest in manifests for path in _node_files(manifest)})
    for controller in new:
        if missing := hosts.run(controller.host, ["sh", "-c", _MISSING, "sh", *wanted]).stdout.split("\n")[:-1]:
            raise Blocked(
                f"{controller.host.name}: the releases' pods need {', '.join(missing)}, which does not exist",
                remedy="Copy it from another controller, and run the same command again.",
            )


def _node_files(manifest: str) -> Iterator[str]:
    """What must exist on a node already: the kubelet starts no pod without it."""
    for item in objects_in(manifest).values():
        if item["kind"] == "Deployment" and item["metadata"].get("namespace") == _SYSTEM:
            for volume in item["spec"]["template"]["spec"].get("volumes") or ():
                path = volume.get("hostPath") or {}
                if path.get("type") in ("File", "Directory", "Socket"):
                    yield path["path"]
