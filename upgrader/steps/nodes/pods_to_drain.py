"""Which pods leave a node that is drained. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.ports import KubeObject

__all__ = ["DrainedPod", "DrainedPods", "pods_to_drain", "tolerates_cordon"]

_MIRROR = "kubernetes.io/config.mirror"
_CORDON = "node.kubernetes.io/unschedulable"
"""The taint of a cordoned node; its effect is NoSchedule."""
_SYSTEM = "kube-system"
_ROLE = "node-role.kubernetes.io/"
_COMPONENTS = frozenset({"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"})
_NAME = "app.kubernetes.io/name"
_USUAL_GRACE_SECONDS = 30


@dataclass(frozen=True)
class DrainedPod:
    """A pod that leaves its node."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    ending: bool
    """Whether it was evicted already, and only has to end."""
    kept_by: str = ""
    """What an ending pod may wait for, such as ` (grace period: 3600 s)`; "" if that is usual."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class DrainedPods:
    """The pods of a node that have to leave it."""

    owned: tuple[DrainedPod, ...] = ()
    """Those that a controller makes again on another node, and those that are ending anyway."""
    bare: tuple[DrainedPod, ...] = ()
    """Pods without a controller: once evicted, they are gone."""

    def __bool__(self) -> bool:
        return bool(self.owned or self.bare)


def pods_to_drain(pods: Iterable[KubeObject], *, controller: bool) -> DrainedPods:
    """All but static pods, DaemonSets' pods and those that have ended; what their emptyDir volumes hold ends with them.

    On a `controller`, what belongs to the control plane stays as well: it could run nowhere else, or its absence would
    be one more instance that is missing.
    """
    owned: list[DrainedPod] = []
    bare: list[DrainedPod] = []
    for pod in pods:
        if _stays(pod) or (controller and _is_control_plane(pod)):
            continue
        meta = pod["metadata"]
        drained = DrainedPod(
            meta.get("namespace", ""),
            meta["name"],
            meta["uid"],
            meta.get("labels") or {},
            ending="deletionTimestamp" in meta,
            kept_by=_kept_by(meta),
        )
        # Nobody decides any more about one that is ending: it only has to be waited for.
        (owned if _owner(meta) or drained.ending else bare).append(drained)
    return DrainedPods(tuple(owned), tuple(bare))


def tolerates_cordon(pod: KubeObject) -> bool:
    """Whether it may be placed on a cordoned node."""
    return any(
        (not item.get("key") or item["key"] == _CORDON)
        and item.get("effect", "") in ("", "NoSchedule")
        and (item.get("operator") == "Exists" or (bool(item.get("key")) and not item.get("value")))
        for item in (pod.get("spec") or {}).get("tolerations") or ()
    )


def _stays(pod: KubeObject) -> bool:
    meta = pod["metadata"]
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    static = _MIRROR in (meta.get("annotations") or {})
    return ended or static or _owner(meta).get("kind") == "DaemonSet"


def _kept_by(meta: Mapping[str, Any]) -> str:
    """Why a pod that was deleted may be there for long: no drain ends its grace period, or removes its finalizers."""
    if "deletionTimestamp" not in meta:
        return ""
    if finalizers := meta.get("finalizers"):
        return f" (finalizers: {', '.join(finalizers)})"
    seconds = meta.get("deletionGracePeriodSeconds") or 0
    return f" (grace period: {seconds} s)" if seconds > _USUAL_GRACE_SECONDS else ""


def _is_control_plane(pod: KubeObject) -> bool:
    meta = pod["metadata"]
    if meta.get("namespace") != _SYSTEM:
        return False
    pinned = any(key.startswith(_ROLE) for key in (pod.get("spec") or {}).get("nodeSelector") or {})
    return pinned or (meta.get("labels") or {}).get(_NAME) in _COMPONENTS


def _owner(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    owners: Iterable[Mapping[str, Any]] = meta.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})
