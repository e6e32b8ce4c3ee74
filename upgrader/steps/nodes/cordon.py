"""Cordons nodes and marks how far their upgrade got, in one request each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.model.node_mark import MARK, NodeMark, Phase
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Kube, KubeObject
from upgrader.steps.nodes.kinds import NODES
from upgrader.wait_and_retry import retry

__all__ = ["Cordons", "NodeNow"]

T = TypeVar("T")

_CONFLICT = 409
_PAUSE_SECONDS = 1.0
_SECONDS = 120.0
"""How long an API that doesn't answer is tried again: it may be the kubelet of its own controller that is replaced."""


@dataclass(frozen=True)
class NodeNow:
    """A node as the API has it."""

    name: str
    version: KubernetesVersion
    """Its kubelet's, as that reported last."""
    cordoned: bool
    mark: NodeMark | None

    @classmethod
    def of(cls, node: KubeObject) -> NodeNow:
        """From a `v1` Node."""
        version = KubernetesVersion.parse(node["status"]["nodeInfo"]["kubeletVersion"])
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        return cls(node["metadata"]["name"], version, cordoned, NodeMark.of(node))


@dataclass(frozen=True)
class Cordons:
    """The nodes' marks and cordons. Every method raises ApiError."""

    kube: Kube
    clock: Clock

    def read(self, name: str) -> NodeNow | None:
        """A node; None where the cluster has no such node any more."""
        found = self._patiently(lambda: self.kube.get(NODES, name))
        return NodeNow.of(found) if found is not None else None

    def cordon(self, name: str, phase: Phase, why: str = "") -> None:
        """Cordon a node, if it isn't, and mark it. A cordon of somebody else's is known as such from then on."""

        def change(now: NodeNow) -> tuple[NodeMark, bool]:
            mark = now.mark or NodeMark(phase, cordoned=not now.cordoned, before=now.version)
            return replace(mark, phase=phase, why=why), True

        self._change(name, change)

    def release(self, name: str) -> KubernetesVersion | None:
        """Remove the mark, and the cordon if the mark says that it is ours; returns its kubelet's version."""
        now = self._change(name, lambda now: (None, now.cordoned and not (now.mark and now.mark.cordoned)))
        return now.version if now else None

    def _change(self, name: str, decide: Callable[[NodeNow], tuple[NodeMark | None, bool]]) -> NodeNow | None:
        """The node as it was; None where it is no node any more."""

        def change() -> NodeNow | None:
            found = self.kube.get(NODES, name)
            if found is None:
                return None
            now = NodeNow.of(found)
            mark, cordoned = decide(now)
            self.kube.patch(NODES, name, _patch(found, mark, cordoned=cordoned))
            return now

        return self._patiently(change)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Again where the API doesn't answer, or the node has changed since it was read."""

        def pause(error: Exception) -> float | None:
            passes = isinstance(error, ApiUnavailable) or (isinstance(error, ApiError) and error.status == _CONFLICT)
            return _PAUSE_SECONDS if passes else None

        return retry(self.clock, work, pause=pause, seconds=_SECONDS)


def _patch(read: KubeObject, mark: NodeMark | None, *, cordoned: bool) -> Mapping[str, Any]:
    """Only of the node as it was read: what is decided depends on whether somebody else cordons it."""
    return {
        "metadata": {
            "resourceVersion": read["metadata"]["resourceVersion"],
            "annotations": {MARK: mark.text() if mark else None},
        },
        "spec": {"unschedulable": True if cordoned else None},
    }
