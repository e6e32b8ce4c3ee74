"""Cordons nodes and marks how far their upgrade got, in one request each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from upgrader.model.node_configuration import CONFIGURED, configured_with
from upgrader.model.node_mark import MARK, NodeMark, Phase
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Kube, KubeObject
from upgrader.steps.nodes.kinds import NODES
from upgrader.steps.nodes.patience import patiently

__all__ = ["Cordons", "NodeNow"]


@dataclass(frozen=True)
class NodeNow:
    """A node as the API has it."""

    name: str
    version: KubernetesVersion
    """Its kubelet's, as that reported last."""
    cordoned: bool
    mark: NodeMark | None
    configured: str = ""
    """The fingerprint of what it was last configured with; "": unknown."""

    @classmethod
    def of(cls, node: KubeObject) -> NodeNow:
        """From a `v1` Node."""
        version = KubernetesVersion.parse(node["status"]["nodeInfo"]["kubeletVersion"])
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        return cls(node["metadata"]["name"], version, cordoned, NodeMark.of(node), configured_with(node))


@dataclass(frozen=True)
class _Change:
    """What a node gets in one request; `configured` None: its annotation stays."""

    mark: NodeMark | None
    cordoned: bool
    configured: str | None = None


@dataclass(frozen=True)
class Cordons:
    """The nodes' marks and cordons. Every method raises ApiError."""

    kube: Kube
    clock: Clock

    def read(self, name: str) -> NodeNow | None:
        """A node; None where the cluster has no such node any more."""
        found = patiently(self.clock, lambda: self.kube.get(NODES, name))
        return NodeNow.of(found) if found is not None else None

    def cordon(self, name: str, phase: Phase, why: str = "") -> None:
        """Cordon a node, if it isn't, and mark it. A cordon of somebody else's is known as such from then on."""

        def change(now: NodeNow) -> _Change:
            mark = now.mark or NodeMark(phase, cordoned=not now.cordoned, before=now.version)
            return _Change(replace(mark, phase=phase, why=why), cordoned=True)

        self._change(name, change)

    def release(self, name: str, configured: str | None = None) -> KubernetesVersion | None:
        """Remove the mark, and the cordon if the mark says that it is ours; returns its kubelet's version.

        `configured` is what it is configured with now, "" where nobody knows; None: as its annotation has it.
        """

        def change(now: NodeNow) -> _Change:
            return _Change(None, now.cordoned and not (now.mark and now.mark.cordoned), configured)

        now = self._change(name, change)
        return now.version if now else None

    def _change(self, name: str, decide: Callable[[NodeNow], _Change]) -> NodeNow | None:
        """The node as it was; None where it is no node any more."""

        def change() -> NodeNow | None:
            found = self.kube.get(NODES, name)
            if found is None:
                return None
            now = NodeNow.of(found)
            self.kube.patch(NODES, name, _patch(found, decide(now)))
            return now

        return patiently(self.clock, change)


def _patch(read: KubeObject, change: _Change) -> Mapping[str, Any]:
    """Only of the node as it was read: what is decided depends on whether somebody else cordons it."""
    annotations = {MARK: change.mark.text() if change.mark else None}
    if change.configured is not None and change.configured != configured_with(read):
        annotations[CONFIGURED] = change.configured or None
    return {
        "metadata": {"resourceVersion": read["metadata"]["resourceVersion"], "annotations": annotations},
        "spec": {"unschedulable": True if change.cordoned else None},
    }
