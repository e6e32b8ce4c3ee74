"""What a lab has of another cluster, from that cluster's copy: pure functions.

What a lab can't have is named. Pods have the pause image, in a form that any Pod Security level admits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from upgrader.errors import UsageError
from upgrader.lab.binaries import PAUSE
from upgrader.lab.kubespray import IGNORED_BY_SCHEDULER
from upgrader.lab.spec import MAX_CONTROLLERS, MAX_WORKERS, Node, Placement
from upgrader.lab.webhooks import has_webhooks
from upgrader.model.cluster_copy.copy import ClusterCopy, CopiedNode, described
from upgrader.model.workload import selects

__all__ = ["LikeNode", "Likeness", "answers_webhooks", "chosen_nodes", "like", "objects_of"]

_PODS_OF_A_NODE = 50
_FEW = 3
"""To how many replicas a workload is reduced where all would be too many."""
_WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")
_PROTECTED_GROUPS = (".k8s.io", ".kubernetes.io")
_SPEC = {
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "pause",
            "image": f"registry.k8s.io/pause:{PAUSE}",
            "imagePullPolicy": "IfNotPresent",
            "resources": {
                "requests": {"cpu": "1m", "memory": "4Mi"},
                "limits": {"cpu": "100m", "memory": "64Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
        }
    ],
}


@dataclass(frozen=True)
class LikeNode:
    """What one of the lab's nodes has of one of the cluster's."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class Likeness:
    """What a lab has from its first boot on. `digest`: of the whole copy, so that another one is another lab's."""

    digest: str
    flags: Mapping[str, Mapping[str, str]]
    """Component → flag → value."""
    values: Mapping[str, Mapping[str, Any]]
    """Release → values, without flags."""
    controllers: tuple[LikeNode, ...]
    workers: tuple[LikeNode, ...]
    webhooks: bool = False
    """Whether it gets webhooks, which something has to answer."""

    def text(self) -> str:
        """As the lab's specification holds it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Likeness | None:
        """From that text; None for a lab that is like no other cluster."""
        if not text:
            return None
        found = json.loads(text)
        controllers, workers = (
            tuple(LikeNode(each["labels"], tuple(each["taints"])) for each in found[role])
            for role in ("controllers", "workers")
        )
        webhooks = found.get("webhooks", False)  # labs of earlier versions had none, and their text doesn't say so
        return cls(found["digest"], found["flags"], found["values"], controllers, workers, webhooks)

    def node(self, node: Node) -> LikeNode:
        """What that node has; more controllers than the cluster has are like its last one."""
        nodes = self.controllers if node.role == "controller" else self.workers
        number = int(node.name.rpartition("-")[2]) - 1
        if number < len(nodes):
            return nodes[number]
        # Controllers are alike. One without their taints would be the place for all workloads.
        return nodes[-1] if nodes and node.role == "controller" else LikeNode()


def answers_webhooks(placement: Placement) -> bool:
    """Whether each controller of a lab answers webhooks: those of the cluster that it is like."""
    likeness = Likeness.parse(placement.spec.like)
    return likeness is not None and likeness.webhooks


def chosen_nodes(copied: ClusterCopy, controllers: int | None, workers: int | None) -> tuple[CopiedNode, ...]:
    """The cluster's nodes that the lab has, as many as it has of each kind, or as are asked for: of each set of labels
    and taints one first. Raises UsageError for more than a lab can have.
    """
    found = list[CopiedNode]()
    for nodes, wanted, most, what in (
        (copied.controllers, controllers, MAX_CONTROLLERS, "controllers"),
        (copied.workers, workers, MAX_WORKERS, "workers"),
    ):
        if wanted is None and len(nodes) > most:
            raise UsageError(
                f"the copied cluster has {len(nodes)} {what}, but a lab can have at most {most}; nothing was created",
                remedy=f"Create a lab with fewer: add --{what} N.",
            )
        found += _various(nodes)[: len(nodes) if wanted is None else wanted]
    return tuple(found)


def like(copied: ClusterCopy, nodes: tuple[CopiedNode, ...], layout: str = "") -> tuple[Likeness, tuple[str, ...]]:
    """What a lab of that layout with these of the cluster's nodes has, and what it can't have, one line each."""
    digest = hashlib.sha256(json.dumps(copied.plain(), sort_keys=True).encode()).hexdigest()
    controllers, workers = (
        tuple(LikeNode(node.labels, node.taints) for node in nodes if node.controller is role) for role in (True, False)
    )
    left = [node.name for node in copied.nodes if node not in nodes]
    left_out = [f"Node {name}: the lab has fewer nodes" for name in left]
    left_out += [
        f"Node {node.name}: the lab's kubelets are {copied.kubernetes}, not {node.kubelet}"
        for node in nodes
        if node.kubelet and node.kubelet != str(copied.kubernetes)
    ]
    left_out += [
        f"kube-scheduler --{name}: ignored, because --layout {layout} has a configuration file"
        for name in IGNORED_BY_SCHEDULER
        if layout and name in copied.flags.get("kube-scheduler", {})
    ]
    webhooks = any(map(has_webhooks, copied.objects))
    return Likeness(digest, copied.flags, copied.values, controllers, workers, webhooks), tuple(left_out)


def objects_of(copied: ClusterCopy, nodes: int) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The objects that a lab with so many nodes gets, and those that it doesn't, or in part, one line each.

    Raises UsageError for more pods than it can run.
    """
    room = _PODS_OF_A_NODE * nodes
    workloads = [item for item in copied.objects if item["kind"] in _WORKLOADS]
    most = None if _pods(workloads, nodes, None) <= room else _FEW
    if _pods(workloads, nodes, most) > room:
        raise UsageError(
            f"the copied cluster has {len(workloads)} workloads: a lab of {nodes} nodes, with at most "
            f"{_PODS_OF_A_NODE} pods on each, could not run even {_FEW} pods of each workload; nothing was created",
            remedy="Create a lab with more nodes (--workers N), or remove workloads from the file.",
        )
    reduced = [item for item in workloads if most is not None and _replicas(item) > most]
    made, left_out = list[dict[str, Any]](), list[str]()
    for item in copied.objects:
        why = _why_not(item, reduced)
        if why:
            left_out.append(f"{described(item)}: {why}")
            continue
        if item in reduced:
            left_out.append(f"{described(item)}: {most} replicas instead of {_replicas(item)}")
        made.append(_made(item, most))
    return tuple(made), tuple(left_out)


def _various(nodes: Iterable[CopiedNode]) -> list[CopiedNode]:
    first, others, seen = list[CopiedNode](), list[CopiedNode](), set[str]()
    for node in nodes:
        kind = json.dumps([node.labels, node.taints], sort_keys=True)
        (others if kind in seen else first).append(node)
        seen.add(kind)
    return first + others


def _pods(workloads: Iterable[Mapping[str, Any]], nodes: int, most: int | None) -> int:
    def of(item: Mapping[str, Any]) -> int:
        if item["kind"] == "DaemonSet":
            return nodes
        return _replicas(item) if most is None else min(_replicas(item), most)

    return sum(map(of, workloads))


def _replicas(item: Mapping[str, Any]) -> int:
    return 0 if item["kind"] == "DaemonSet" else int((item.get("spec") or {}).get("replicas", 1))


def _why_not(item: Mapping[str, Any], reduced: Iterable[Mapping[str, Any]]) -> str:
    spec = item.get("spec") or {}
    if item["kind"] == "PodDisruptionBudget" and isinstance(spec.get("minAvailable"), int):
        for each in reduced:
            if _same_namespace(item, each) and selects(spec.get("selector") or {}, _pod_labels(each)):
                return f"not copied, because {described(each)} has fewer pods"
    return ""


def _same_namespace(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["metadata"].get("namespace") == other["metadata"].get("namespace"))


def _pod_labels(workload: Mapping[str, Any]) -> Mapping[str, str]:
    template = (workload.get("spec") or {}).get("template") or {}
    labels: Mapping[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels


def _made(item: Mapping[str, Any], most: int | None) -> dict[str, Any]:
    if item["kind"] == "CustomResourceDefinition":
        group = str((item.get("spec") or {}).get("group"))
        if group.endswith(_PROTECTED_GROUPS):  # the API server demands a word about these
            notes = {"api-approved.kubernetes.io": "unapproved, a copy in a lab"}
            return {**item, "metadata": {**item["metadata"], "annotations": notes}}
    if item["kind"] not in _WORKLOADS:
        return dict(item)
    spec = item.get("spec") or {}
    template = spec.get("template") or {}
    pods = {**template, "spec": {**(template.get("spec") or {}), **_SPEC}}
    counts = {} if item["kind"] == "DaemonSet" or most is None else {"replicas": min(_replicas(item), most)}
    return {**item, "spec": {**spec, **counts, "template": pods}}
