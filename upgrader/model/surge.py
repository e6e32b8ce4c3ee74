"""Surge nodes: extra nodes of a pool while it is upgraded, and how they differ from the cluster's own. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SURGE", "Surge", "surge_pool"]

SURGE = "upgrader.io/surge"
"""The label of a surge node; its value is the name of its pool."""


@dataclass(frozen=True)
class Surge:
    """How many nodes a pool gets while it is upgraded, and the absolute paths of the playbooks that add and remove
    them.
    """

    nodes: int
    add: Path
    remove: Path
    deadline_seconds: float = 900.0
    """How long adding may take, and how long removing."""


def surge_pool(name: str, labels: Mapping[str, str], listed: Collection[str]) -> str:
    """The pool that a node is a surge node of; "" for the cluster's own nodes.

    `listed` are the names of the inventory's controllers and workers. These are the cluster's own whatever their
    labels: a node's kubelet may label it, and no label may cause a machine of the cluster to be removed.
    """
    return "" if name in listed else labels.get(SURGE, "")
