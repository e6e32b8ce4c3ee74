"""The update of an IngressDaemonSet's pods, node by node, each out of the load balancer before its pods go.

Where a node is stands on its Deployment, so that a controller that is killed goes on where it was:

    revision   to-be-updated   detach-asked
    old        –               –              waits for its turn
    old        time            time           the health port fails, the Node is annotated: wait for both
    new        time            time           pods are replaced: wait for all of them
    new        –               time           the health port answers 200, the Node is attached again: wait for it
    new        –               –              done

A node counts against the maximum in all rows but the first and the last, while its pods aren't all ready, and while
somebody else has it detached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from upgrader.guard.core.detach import DetachStep, asked, attach, detach
from upgrader.guard.core.ingress import IngressDaemonSet
from upgrader.guard.core.ingress_objects import REVISION, deployment
from upgrader.guard.core.times import seconds_of, timestamp

__all__ = ["DETACH_ASKED", "IngressDecision", "Node", "NodeDeployment", "NodeWork", "decide", "is_healthy"]

DETACH_ASKED = "ingressdaemonsets.mumoshu.github.com/detach-asked"
Patch = Mapping[str, str | None]


@dataclass(frozen=True)
class Node:
    """A Node; `noticed`: when this process first saw the detachment's answer on it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    noticed: float | None = None


@dataclass(frozen=True)
class NodeDeployment:
    """A node's Deployment as it is. `settled`: its controller has seen it, and only pods of its template are there."""

    name: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    ready: int = 0
    settled: bool = False

    @property
    def whole(self) -> bool:
        """Whether all its pods are ready."""
        return self.ready >= self.replicas


@dataclass(frozen=True)
class NodeWork:
    """What to do about a node now, in this order; `waits_for` is for people.

    `apply`: a Deployment to create or to update. `delete`: the name of one to delete. The patches set annotations, or
    take them off (None).
    """

    node: str
    patch_deployment: Patch = field(default_factory=dict)
    patch_node: Patch = field(default_factory=dict)
    apply: Mapping[str, Any] | None = None
    delete: str = ""
    waits_for: str = ""
    again_in: float | None = None


@dataclass(frozen=True)
class IngressDecision:
    """What to do, and the numbers of nodes for the status."""

    work: tuple[NodeWork, ...]
    desired: int
    updated: int
    ready: int
    updating: int


def is_healthy(which: IngressDaemonSet, its: NodeDeployment | None) -> bool:
    """Whether the health port of a node answers 200: all its pods are ready, and no update of them is due."""
    return its is not None and its.whole and its.replicas >= which.pods_per_node and which.due not in its.annotations


def decide(
    which: IngressDaemonSet, nodes: Iterable[Node], deployments: Iterable[NodeDeployment], now: float
) -> IngressDecision:
    """What to do now about each node."""
    by_name = {n.name: n for n in nodes}
    selected = {name for name, n in by_name.items() if _selects(which.node_selector, n.labels)}
    work: list[NodeWork] = []
    its: dict[str, NodeDeployment] = {}
    for each in sorted(deployments, key=lambda d: d.node):
        if each.node in selected:
            its[each.node] = each
        else:
            work.append(_drop(which, by_name.get(each.node), each))
    wanted = {name: deployment(which, name) for name in sorted(selected)}
    work += [NodeWork(name, apply=wanted[name]) for name in wanted if name not in its]
    stale = {name for name, d in its.items() if d.annotations.get(REVISION) != _revision(wanted[name])}
    begun = {name for name, d in its.items() if which.due in d.annotations or DETACH_ASKED in d.annotations}
    busy = begun | {name for name, d in its.items() if not d.whole or _detached(which, by_name[name])}
    begin = _next(stale - begun, begun, busy, its, which.most_nodes)
    for name in sorted(begun | begin):
        work.append(_step(which, by_name[name], its[name], wanted[name], name in stale, now))
    for name in sorted(set(its) - stale - begun):
        if its[name].replicas != which.pods_per_node:
            work.append(NodeWork(name, apply=wanted[name]))
    return IngressDecision(
        work=tuple(work),
        desired=len(selected),
        updated=sum(name not in stale and d.settled for name, d in its.items()),
        ready=sum(d.whole for d in its.values()),
        updating=len(begun | begin),
    )


def _next(waiting: set[str], begun: set[str], busy: set[str], its: Mapping[str, NodeDeployment], most: int) -> set[str]:
    """Which nodes begin: those that serve nobody first, as they are busy already; never more than `most` at a time."""
    chosen: set[str] = set()
    for name in sorted(waiting, key=lambda n: (its[n].whole, n)):
        if len(begun | chosen) < most and (name in busy or len(busy | chosen) < most):
            chosen.add(name)
    return chosen


def _step(
    which: IngressDaemonSet, node: Node, its: NodeDeployment, wanted: Mapping[str, Any], stale: bool, now: float
) -> NodeWork:
    """The next step of one node that is being updated."""
    if stale:
        return _out(which, node, its, wanted, now)
    if which.due in its.annotations:
        if not its.settled or not its.whole:
            return NodeWork(node.name, waits_for=f"{its.ready} of {its.replicas} pods of {its.name} are ready")
        return NodeWork(node.name, patch_deployment={which.due: None}, waits_for="the health port to answer")
    back = DetachStep(done=True) if which.detachment is None else attach(node.annotations, which.detachment)
    if not back.done:
        return NodeWork(node.name, patch_node=back.patch, waits_for=back.waits_for)
    return NodeWork(node.name, patch_deployment={DETACH_ASKED: None})


def _out(which: IngressDaemonSet, node: Node, its: NodeDeployment, wanted: Mapping[str, Any], now: float) -> NodeWork:
    since, asked_at = (seconds_of(its.annotations.get(key)) for key in (which.due, DETACH_ASKED))
    marks = {which.due: since, **({} if which.detachment is None else {DETACH_ASKED: asked_at})}
    missing: Patch = {key: timestamp(now) for key, value in marks.items() if value is None}
    if missing:
        return NodeWork(node.name, patch_deployment=missing, waits_for="the health port to fail")
    assert since is not None
    if which.detachment is not None and asked_at is not None:
        out = detach(node.annotations, which.detachment, asked_at, node.noticed, now)
        if not out.done:
            return NodeWork(node.name, patch_node=out.patch, waits_for=out.waits_for, again_in=out.again_in)
    if left := max(0.0, since + which.due_grace - now):
        return NodeWork(node.name, waits_for=f"the grace period, for {left:.0f} s", again_in=left)
    return NodeWork(node.name, apply=wanted)


def _drop(which: IngressDaemonSet, node: Node | None, its: NodeDeployment) -> NodeWork:
    """A Deployment whose node has gone or is no longer selected; what was asked of the node is taken back."""
    mine = node is not None and which.detachment is not None and DETACH_ASKED in its.annotations
    patch: Patch = {}
    if mine and node is not None and which.detachment is not None and asked(node.annotations, which.detachment):
        patch = {which.detachment.key: None}
    return NodeWork(its.node, patch_node=patch, delete=its.name)


def _detached(which: IngressDaemonSet, node: Node) -> bool:
    return which.detachment is not None and asked(node.annotations, which.detachment)


def _revision(wanted: Mapping[str, Any]) -> str:
    return str(wanted["metadata"]["annotations"][REVISION])


def _selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
