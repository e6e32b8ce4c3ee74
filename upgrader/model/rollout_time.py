"""How long a roll-out may take in a cluster of this size."""

from __future__ import annotations

from math import ceil

from upgrader.model.health_before import Share
from upgrader.model.manifest import Manifest, objects_in

__all__ = ["rollout_seconds"]

_WAVE_SECONDS = 30.0
"""For the pods that a DaemonSet replaces at once: the old ones end, an image is pulled, the new ones become Ready."""

_CONTROLLERS_ONLY = "node-role.kubernetes.io/control-plane"


def rollout_seconds(manifest: str, *, controllers: int, nodes: int) -> float:
    """The time that the slowest DaemonSet of a manifest needs, as it replaces `maxUnavailable` pods at a time."""
    daemonsets = (item for item in objects_in(manifest).values() if item["kind"] == "DaemonSet")
    return max((_waves(item, controllers, nodes) * _WAVE_SECONDS for item in daemonsets), default=0.0)


def _waves(item: Manifest, controllers: int, nodes: int) -> int:
    spec = item.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    total = controllers if _CONTROLLERS_ONLY in (pod.get("nodeSelector") or {}) else nodes
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    # With `maxSurge` it is that number of pods.
    share = Share.parse(rolling.get("maxSurge") or rolling.get("maxUnavailable") or 1)
    return ceil(total / max(1, share.of(total + 1)))
