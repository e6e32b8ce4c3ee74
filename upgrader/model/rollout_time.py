"""How long a rollout may take in a cluster of this size."""

from __future__ import annotations

from math import ceil

from upgrader.errors import UsageError
from upgrader.model.health_before import IntOrPercent
from upgrader.model.manifest import Manifest, objects_in

__all__ = ["replacement_seconds", "rollout_seconds"]

_WAVE_SECONDS = 30.0
"""For the pods that a DaemonSet replaces at once: the old ones terminate, an image is pulled, the new ones become
Ready.
"""

_STATEFUL_SECONDS = 90.0
"""For a StatefulSet's pod, once the old one has terminated: it gets its volume, and may have to catch up with the
others.
"""

_GRACE_SECONDS = 30
"""Kubernetes' own `terminationGracePeriodSeconds`."""

_AT_ONCE = "rollout-max-unavailable"
"""Annotation of a StatefulSet in a rollout group: how many of its pods may be missing."""

_CONTROLLERS_ONLY = "node-role.kubernetes.io/control-plane"


def rollout_seconds(manifest: str, *, controllers: int, nodes: int) -> float:
    """The time that the slowest DaemonSet of a manifest needs, as it replaces `maxUnavailable` pods at a time."""
    daemonsets = (item for item in objects_in(manifest).values() if item["kind"] == "DaemonSet")
    return max((_waves(item, controllers, nodes) * _WAVE_SECONDS for item in daemonsets), default=0.0)


def replacement_seconds(item: Manifest) -> float:
    """The time that replacing the pods of a StatefulSet takes, with as many at once as it allows."""
    spec = item.get("spec") or {}
    annotations = item["metadata"].get("annotations") or {}
    replicas = spec.get("replicas")
    total = replicas if isinstance(replicas, int) else 1
    share = annotations.get(_AT_ONCE, "1")
    try:
        at_once = IntOrPercent.parse(share).at_once(total)
    except UsageError:
        at_once = 1
    pod = (spec.get("template") or {}).get("spec") or {}
    grace = pod.get("terminationGracePeriodSeconds")
    ends = grace if isinstance(grace, int) else _GRACE_SECONDS
    each = _STATEFUL_SECONDS + ends + int(spec.get("minReadySeconds") or 0)
    return ceil(total / at_once) * each


def _waves(item: Manifest, controllers: int, nodes: int) -> int:
    spec = item.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    total = controllers if _CONTROLLERS_ONLY in (pod.get("nodeSelector") or {}) else nodes
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    # With `maxSurge` it is that number of pods.
    share = IntOrPercent.parse(rolling.get("maxSurge") or rolling.get("maxUnavailable") or 1)
    return ceil(total / max(1, min(share.up(total), total)))
