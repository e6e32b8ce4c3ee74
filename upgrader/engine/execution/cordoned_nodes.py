"""Nodes that somebody cordoned, and that nobody may remember: a playbook that was cut off, for one."""

from __future__ import annotations

from upgrader.errors import ApiError
from upgrader.gates.kinds import NODES
from upgrader.ports import Kube

__all__ = ["cordoned"]


def cordoned(kube: Kube) -> tuple[str, ...]:
    """A sentence for each node that takes no new pods; nothing where the API doesn't say."""
    try:
        nodes = kube.list(NODES)
    except ApiError:
        return ()
    names = (item["metadata"]["name"] for item in nodes if (item.get("spec") or {}).get("unschedulable"))
    return tuple(f"node {name} is cordoned, and takes no new pods: kubectl uncordon {name}" for name in names)
