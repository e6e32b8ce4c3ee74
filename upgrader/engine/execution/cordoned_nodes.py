"""Finds cordoned nodes, such as those that an interrupted playbook left."""

from __future__ import annotations

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.ports import Kube

__all__ = ["cordoned"]

_AT_ONCE = 500


def cordoned(kube: Kube) -> tuple[str, ...]:
    """One sentence for each cordoned node; nothing where the API doesn't answer."""
    try:
        nodes = kube.each(NODES, at_once=_AT_ONCE)
        names = [item["metadata"]["name"] for item in nodes if (item.get("spec") or {}).get("unschedulable")]
    except ApiError:
        return ()
    return tuple(f"node {name} is still cordoned; run `kubectl uncordon {name}`" for name in names)
