"""The surge nodes of a pool as the cluster has them, and what the user's playbooks are told of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upgrader.model.surge import SURGE, surge_pool
from upgrader.model.version import KUBELET_MINORS, KubernetesVersion
from upgrader.ports import Clock, Kube, KubeObject, Playbooks
from upgrader.steps.nodes.api_resources import NODES
from upgrader.steps.nodes.patient_requests import patiently
from upgrader.steps.surge.plan import PlannedSurge

__all__ = ["SurgeNode", "SurgeNodes"]


@dataclass(frozen=True)
class SurgeNode:
    """A node with the label of the pool's surge."""

    name: str
    version: KubernetesVersion | None
    """Its kubelet's; None: it has never reported."""
    cordoned: bool
    ready: bool
    lacking: tuple[str, ...]
    """The labels of its pool that it doesn't have, as `key=value`."""


@dataclass(frozen=True)
class SurgeNodes:
    """Finds them, and has the user's playbooks add and remove them."""

    planned: PlannedSurge
    kube: Kube
    clock: Clock
    playbooks: Playbooks
    inventory: Path
    listed: Collection[str]
    """The inventory's controllers and workers: none of them is a surge node."""

    @property
    def label(self) -> str:
        """As `kubectl` takes it."""
        return f"{SURGE}={self.planned.pool.name}"

    def now(self) -> tuple[SurgeNode, ...]:
        """Those that are in the cluster, by name. Raises ApiError."""
        pool = self.planned.pool
        found = (item for item in self._labelled() if surge_pool(*_named(item), self.listed) == pool.name)
        return tuple(sorted((_surge_node(item, pool.selector) for item in found), key=lambda node: node.name))

    def found(self, note: Callable[[str], None]) -> tuple[SurgeNode, ...]:
        """The same, where the API may be away for a while. Raises ApiError."""
        return patiently(self.clock, self.now, what=f"the API to list nodes with the label {self.label}", note=note)

    def own(self) -> Sequence[str]:
        """The nodes with the label that the inventory lists, so that they are the cluster's own. Raises ApiError."""
        return sorted(name for name, _ in map(_named, self._labelled()) if name in self.listed)

    def skew(self, version: KubernetesVersion) -> str:
        """What kube-apiserver has against a kubelet of that version; "": nothing."""
        server = self.planned.target
        if version > server:
            return f"its kubelet {version} is newer than kube-apiserver {server}"
        if server.minors_after(version) > KUBELET_MINORS:
            return f"its kubelet {version} is too old for kube-apiserver {server}"
        return ""

    def run(self, playbook: Path, wanted: int, there: Sequence[str]) -> None:
        """Run a playbook of the user's, which is told that there are to be `wanted` nodes, and which are `there`.

        How many there are to be, rather than how many to add: so it may be repeated from any state. Raises
        PlaybookError.
        """
        pool, surge = self.planned.pool, self.planned.surge
        variables = {
            "surge_pool": pool.name,
            "surge_nodes": wanted,
            "surge_names": list(there),
            "surge_labels": {**pool.selector, SURGE: pool.name},
            "surge_kubernetes_version": str(self.planned.target),
        }
        self.playbooks.run(
            playbook, inventory=self.inventory, variables=variables, timeout_seconds=surge.deadline_seconds
        )

    def _labelled(self) -> Sequence[KubeObject]:
        return self.kube.list(NODES, labels=self.label)


def _named(node: KubeObject) -> tuple[str, Mapping[str, str]]:
    return node["metadata"]["name"], node["metadata"].get("labels") or {}


def _surge_node(node: KubeObject, selector: Mapping[str, str]) -> SurgeNode:
    status = node.get("status") or {}
    reported = str((status.get("nodeInfo") or {}).get("kubeletVersion") or "")
    name, labels = _named(node)
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions") or ())
    return SurgeNode(
        name,
        KubernetesVersion.known(reported),
        bool((node.get("spec") or {}).get("unschedulable")),
        ready,
        tuple(f"{key}={value}" for key, value in selector.items() if labels.get(key) != value),
    )
