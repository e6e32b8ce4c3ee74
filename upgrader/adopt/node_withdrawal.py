"""Takes a controller's node out of what the releases' pods may run on, and lets it back in.

Neither a cordon nor a taint does that: the releases tolerate all, as nothing works without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from upgrader.adopt.facts import COMPONENTS
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.left_out import CONTROL_PLANE, LEFT_OUT, LeftOut
from upgrader.model.workload import Pod
from upgrader.ports import Kind, Kube

__all__ = [
    "CONTROL_PLANE",
    "admit",
    "check_chosen_by_label",
    "mark_left_out",
    "pods_on",
    "withdraw",
    "withdrawn",
]

_NODES, _PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_SYSTEM = "kube-system"
_NAME = "app.kubernetes.io/name"
_COST = "controller.kubernetes.io/pod-deletion-cost"


def check_chosen_by_label(kube: Kube) -> None:
    """Every Deployment of the control plane chooses its nodes by the label. Raises Blocked for one that doesn't: its
    pods could be placed on a node that was withdrawn.
    """
    for name in COMPONENTS:
        found = kube.get(_DEPLOYMENTS, name, _SYSTEM)
        selector = found["spec"]["template"]["spec"].get("nodeSelector") or {} if found else {CONTROL_PLANE: ""}
        if CONTROL_PLANE not in selector:
            raise Blocked(
                f"Deployment {_SYSTEM}/{name} doesn't select its nodes by the label {CONTROL_PLANE}, so its pods "
                "can't be kept off a node; nothing was changed",
                remedy=f"Add that label to `nodeSelector` in the values of its release ({CONTROL_PLANE}: '').",
            )


def withdraw(kube: Kube, node: str) -> None:
    """No pod of the releases is placed there any more, and those that are there are the first to go when fewer are
    wanted. Idempotent; a node that is gone is fine. Raises ApiError.
    """
    found = kube.get(_NODES, node)
    if found is not None and CONTROL_PLANE in (found["metadata"].get("labels") or {}):
        kube.patch(_NODES, node, {"metadata": {"labels": {CONTROL_PLANE: None}}})
    for pod in pods_on(kube, node):
        if not pod.deleting:
            kube.patch(_PODS, pod.name, {"metadata": {"annotations": {_COST: "-1000"}}}, _SYSTEM)


def admit(kube: Kube, node: str) -> None:
    """The releases' pods may run there again."""
    kube.patch(_NODES, node, {"metadata": {"labels": {CONTROL_PLANE: ""}}})


@contextmanager
def withdrawn(kube: Kube, hosts: Sequence[Host]) -> Iterator[None]:
    """While fewer pods are made: these nodes' pods go, and no others."""
    for host in hosts:
        withdraw(kube, host.name)
    try:
        yield
    finally:
        for host in hosts:
            admit(kube, host.name)


def mark_left_out(kube: Kube, node: str, mark: LeftOut | None, *, labelled: bool | None = None) -> None:
    """Write a node's mark, or remove it, and in the same request its label, where `labelled` says whether it has it."""
    meta: dict[str, Any] = {"annotations": {LEFT_OUT: mark.text() if mark else None}}
    if labelled is not None:
        meta["labels"] = {CONTROL_PLANE: "" if labelled else None}
    kube.patch(_NODES, node, {"metadata": meta})


def pods_on(kube: Kube, node: str) -> tuple[Pod, ...]:
    """The pods of the control plane's Deployments on a node; no static pods, and no checkpoints."""
    pods = kube.list(_PODS, _SYSTEM, fields=f"spec.nodeName={node}")
    ours = (item for item in pods if (item["metadata"].get("labels") or {}).get(_NAME) in COMPONENTS)
    return tuple(pod for pod in map(Pod.parse, ours) if not pod.is_checkpoint)
