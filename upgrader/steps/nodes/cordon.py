"""Cordons nodes, asks for their load balancer, and marks how far their upgrade got, in one request each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upgrader.contract import detach as contract
from upgrader.errors import ApiError
from upgrader.model.node_configuration import CONFIGURED, configured_with
from upgrader.model.node_mark import MARK, NodeMark, Phase
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Kube, KubeObject
from upgrader.steps.nodes.api_resources import NODES
from upgrader.steps.nodes.patient_requests import patiently

__all__ = ["LOAD_BALANCER", "Cordons", "NodeNow"]

LOAD_BALANCER = contract.Detachment()
"""The annotations by which a node's load balancer is asked, and answers."""


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
    annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, node: KubeObject) -> NodeNow:
        """From a `v1` Node."""
        reported = str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or "")
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        annotations = node["metadata"].get("annotations") or {}
        return cls(node["metadata"]["name"], reported, cordoned, NodeMark.of(node), configured_with(node), annotations)

    @property
    def wanted_out(self) -> bool:
        """Whether anybody wants it out of the load balancer."""
        return contract.asked(self.annotations, LOAD_BALANCER)

    @property
    def version(self) -> KubernetesVersion:
        """The same, where it decides what is to be done. Raises ApiError where it is none."""
        found = KubernetesVersion.known(self.reported)
        if found is None:
            raise ApiError(
                f"node {self.name}: its kubelet reports '{self.reported}', which is not a Kubernetes version",
                remedy=f"Check its kubelet: kubectl describe node {self.name}",
            )
        return found


@dataclass(frozen=True)
class _Change:
    """What a node gets in one request; `configured` None: its annotation stays."""

    mark: NodeMark | None
    cordoned: bool
    configured: str | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Those of the load balancer; None: taken off."""


@dataclass(frozen=True)
class Cordons:
    """The nodes' marks, cordons and wishes to their load balancer. Every method raises ApiError."""

    kube: Kube
    clock: Clock
    note: Callable[[str], None] = lambda _: None
    """Takes what is waited for while the API doesn't answer."""

    def read(self, name: str) -> NodeNow | None:
        """A node; None where the cluster has no such node any more."""
        what = f"the API to answer for node {name}"
        found = patiently(self.clock, lambda: self.kube.get(NODES, name), what=what, note=self.note)
        return NodeNow.of(found) if found is not None else None

    def detach(self, name: str) -> None:
        """Request that a node is taken out of its load balancer, unless that is requested already, and mark it.

        A request of another client is recorded as such, and stays; that of an IngressDaemonSet, which would return the
        node in the middle of its upgrade, is taken over.
        """

        def change(now: NodeNow) -> _Change:
            mark = now.mark
            if mark is None or mark.phase == "attach":
                mark = NodeMark("detach", cordoned=False, before=KubernetesVersion.known(now.reported))
            lent = contract.lent(now.annotations, LOAD_BALANCER)
            mark = replace(mark, detached=mark.detached or not now.wanted_out or lent)
            taken_over = {contract.OWNER: None} if lent else {}
            return _Change(mark, now.cordoned, annotations={**_asking(now), **taken_over})

        self._change(name, change)

    def cordon(self, name: str, phase: Phase, why: str = "") -> None:
        """Cordon a node, if it isn't, and mark it. A cordon by another client is recorded as such.

        Our request to its load balancer is renewed if it was removed, also for a node that is rolled back because it
        didn't return to the load balancer.
        """

        def change(now: NodeNow) -> _Change:
            found = now.mark
            mark = found or NodeMark(phase, not now.cordoned, before=KubernetesVersion.known(now.reported))
            if found and found.phase in ("detach", "attach"):
                mark = replace(mark, cordoned=not now.cordoned)
            if found and found.phase == "attach":
                mark = replace(mark, detached=not now.wanted_out)
            # It may be out still: then that answer holds, and it has to be said when it is in again.
            asking = _asking(now) if mark.detached else {}
            asking = {key: text for key, text in asking.items() if key != LOAD_BALANCER.answer}
            return _Change(replace(mark, phase=phase, why=why), cordoned=True, annotations=asking)

        self._change(name, change)

    def release(self, name: str, configured: str | None = None) -> str:
        """Remove the mark, and the cordon if the mark says that it is ours; returns the version that its kubelet
        reports, "" if the node is gone.

        If the mark says that we had it taken out of its load balancer, it has to return, and gets the mark `attach`.
        `configured` is its present configuration, "" if unknown; None: as its annotation has it.
        """

        def change(now: NodeNow) -> _Change:
            cordoned = now.cordoned and not (now.mark and now.mark.cordoned)
            if not now.mark or not now.mark.detached:
                return _Change(None, cordoned, configured)
            mark = replace(now.mark, phase="attach", cordoned=False, why="")
            return _Change(mark, cordoned, configured, _taken_off(now))

        now = self._change(name, change)
        return now.reported if now else ""

    def attached(self, name: str) -> None:
        """Remove the mark of a node that is in its load balancer again."""

        def change(now: NodeNow) -> _Change:
            return _Change(None if now.mark and now.mark.phase == "attach" else now.mark, now.cordoned)

        self._change(name, change)

    def _change(self, name: str, decide: Callable[[NodeNow], _Change]) -> NodeNow | None:
        """The node as it was; None where it is no node any more."""

        def change() -> NodeNow | None:
            found = self.kube.get(NODES, name)
            if found is None:
                return None
            now = NodeNow.of(found)
            self.kube.patch(NODES, name, _patch(found, decide(now)))
            return now

        return patiently(self.clock, change, what=f"the API to accept a change of node {name}", note=self.note)


def _patch(read: KubeObject, change: _Change) -> Mapping[str, Any]:
    """Only of the node as it was read: what is decided depends on whether somebody else cordons it."""
    annotations: dict[str, str | None] = {MARK: change.mark.text() if change.mark else None, **change.annotations}
    if change.configured is not None and change.configured != configured_with(read):
        annotations[CONFIGURED] = change.configured or None
    return {
        "metadata": {"resourceVersion": read["metadata"]["resourceVersion"], "annotations": annotations},
        "spec": {"unschedulable": True if change.cordoned else None},
    }


def _asking(now: NodeNow) -> Mapping[str, str | None]:
    """What asks for it, unless it is asked for; answers to an earlier wish go."""
    return contract.detach(now.annotations, LOAD_BALANCER, 0, None, 0).patch


def _taken_off(now: NodeNow) -> Mapping[str, str | None]:
    return contract.attach(now.annotations, LOAD_BALANCER).patch if now.wanted_out else {}
