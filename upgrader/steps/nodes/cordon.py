"""Cordons nodes and marks how far their upgrade got, in one request each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from upgrader.errors import ApiError
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
    reported: str
    """Its kubelet's version, as that reported last; "" until it has."""
    cordoned: bool
    mark: NodeMark | None
    configured: str = ""
    """The fingerprint of what it was last configured with; "": unknown."""

    @classmethod
    def of(cls, node: KubeObject) -> NodeNow:
        """From a `v1` Node."""
        reported = str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or "")
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        return cls(node["metadata"]["name"], reported, cordoned, NodeMark.of(node), configured_with(node))

    @property
    def version(self) -> KubernetesVersion:
        """The same, where it decides what is to be done. Raises ApiError where it is none."""
        found = KubernetesVersion.known(self.reported)
        if found is None:
            raise ApiError(
                f"node {self.name}: its kubelet reports '{self.reported}', which is no Kubernetes version",
                remedy=f"Look at its kubelet: kubectl describe node {self.name}",
            )
        return found


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
            mark = now.mark or NodeMark(phase, not now.cordoned, before=KubernetesVersion.known(now.reported))
            return _Change(replace(mark, phase=phase, why=why), cordoned=True)

        self._change(name, change)

    def release(self, name: str, configured: str | None = None) -> str:
        """Remove the mark, and the cordon if the mark says that it is ours; returns the version that its kubelet
        reports, "" where it is no node any more.

        `configured` is what it is configured with now, "" where nobody knows; None: as its annotation has it.
        """

        def change(now: NodeNow) -> _Change:
            return _Change(None, now.cordoned and not (now.mark and now.mark.cordoned), configured)

        now = self._change(name, change)
        return now.reported if now else ""

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
