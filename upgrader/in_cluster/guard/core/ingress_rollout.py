"""The update of an IngressDaemonSet's pods, node by node, each out of the load balancer before its pods go.

The progress of a node is on its Deployment, so that a controller that is killed continues where it was:

    revision   to-be-updated   detach-asked
    old        –               –              waits for its turn
    old        time            time           the health port fails, the Node is annotated: wait for both
    new        time            time           pods are replaced: wait for all of them
    new        –               time           the health port answers 200, the Node is attached again: wait for it
    new        –               –              done

A node counts against the maximum in all rows but the first and the last, while its pods aren't all ready, and while
another client has it detached. The Node says which client has (`OWNER`), so that no other client attaches it.

While a run of the upgrader holds the rollout, no further node leaves the first row, and no node gets fewer pods; nodes
that have left the first row continue, as they are out of the load balancer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upgrader.contract.detach import OWNER, DetachStep, asked, attach, detach
from upgrader.contract.times import seconds_of, timestamp
from upgrader.in_cluster.guard.core.ingress import IngressDaemonSet
from upgrader.in_cluster.guard.core.ingress_objects import NODE_LABEL, PODS, REVISION, deployment, tolerations
from upgrader.in_cluster.guard.core.taints import Taint, tolerated

__all__ = [
    "DETACH_ASKED",
    "IngressDecision",
    "Node",
    "NodeDeployment",
    "NodeWork",
    "decide",
    "is_healthy",
    "node_deployment",
    "taken_back",
]

DETACH_ASKED = "ingressdaemonsets.mumoshu.github.com/detach-asked"
_OTHERS = "another client to attach the node again"
Patch = Mapping[str, str | None]


@dataclass(frozen=True)
class Node:
    """A Node; `noticed`: when this process first saw the detachment's answer on it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    noticed: float | None = None
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True)
class NodeDeployment:
    """A node's Deployment as it is. `pods`: how many it is to have, if it says so; `settled`: its controller has seen
    it, and only pods of its template are there.
    """

    name: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    ready: int = 0
    settled: bool = False
    pods: int = 0

    @property
    def whole(self) -> bool:
        """Whether all its pods are ready."""
        return self.ready >= max(self.replicas, self.pods)


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
    """What to do, and the numbers of nodes for the status. `under_way`: some nodes are still to be updated, or back."""

    work: tuple[NodeWork, ...]
    desired: int
    updated: int
    ready: int
    updating: int
    under_way: bool = False


def is_healthy(its: NodeDeployment | None, due: str) -> bool:
    """Whether the health port of a node answers 200: all its pods are ready, and no update of them is due.

    `due`: the annotation that says that one is.
    """
    return its is not None and its.whole and its.ready > 0 and due not in its.annotations


def node_deployment(item: Mapping[str, Any]) -> NodeDeployment:
    """From the API's Deployment; what it lacks is as bad as can be."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    replicas = int(1 if spec.get("replicas") is None else spec["replicas"])
    updated = int(status.get("updatedReplicas") or 0)
    pods = annotations.get(PODS, "")
    pod = (spec.get("template") or {}).get("spec") or {}
    return NodeDeployment(
        name=str(metadata["name"]),
        node=str(pod.get("nodeName") or (metadata.get("labels") or {}).get(NODE_LABEL) or ""),
        annotations=annotations,
        replicas=replicas,
        ready=int(status.get("readyReplicas") or 0),
        settled=(
            int(status.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0)
            and updated >= replicas
            and int(status.get("replicas") or 0) == updated
        ),
        pods=int(pods) if pods.isdecimal() and len(pods) < 10 else 0,
    )


def taken_back(annotations: Mapping[str, str], owner: str) -> Patch:
    """Of a Node's annotations, what the IngressDaemonSet `NAMESPACE/NAME` has asked for, to be taken off."""
    who, _, key = annotations.get(OWNER, "").partition(" ")
    if who != owner:
        return {}
    return {each: None for each in (OWNER, key) if each in annotations}


def decide(
    which: IngressDaemonSet,
    nodes: Iterable[Node],
    deployments: Iterable[NodeDeployment],
    now: float,
    held: str = "",
) -> IngressDecision:
    """What to do now about each node. `held`: what no node may begin before; "": nothing holds it."""
    by_name = {n.name: n for n in nodes}
    there = sorted(deployments, key=lambda d: d.node)
    selected = _selected(which, by_name.values(), {each.node for each in there})
    work: list[NodeWork] = []
    its: dict[str, NodeDeployment] = {}
    for each in there:
        if each.node in selected:
            its[each.node] = each
        else:
            work.append(_drop(which, by_name.get(each.node), each))
    wanted = {name: deployment(which, name) for name in sorted(selected)}
    work += [NodeWork(name, apply=wanted[name]) for name in wanted if name not in its]
    stale = {name for name, d in its.items() if d.annotations.get(REVISION) != _revision(wanted[name])}
    begun = {name for name, d in its.items() if which.due in d.annotations or DETACH_ASKED in d.annotations}
    detached = {name for name in its if _detached(which, by_name[name])}
    busy = begun | detached | {name for name, d in its.items() if not d.whole}
    others = {name for name in (stale - begun) & detached if not _mine(which, by_name[name])}
    work += [NodeWork(name, waits_for=_OTHERS) for name in sorted(others)]
    waiting = stale - begun - others
    begin = set[str]() if held else _next(waiting, begun, busy, its, which.most_nodes)
    if held:
        work += [NodeWork(name, waits_for=held) for name in sorted(waiting)]
    for name in sorted(begun | begin):
        work.append(_step(which, by_name[name], its[name], wanted[name], name in stale, now))
    for name in sorted(set(its) - stale - begun):
        if held and its[name].replicas > which.pods_per_node:
            work.append(NodeWork(name, waits_for=held))
        elif its[name].replicas != which.pods_per_node:
            work.append(NodeWork(name, apply=wanted[name]))
    return IngressDecision(
        work=tuple(work),
        desired=len(selected),
        updated=sum(name not in stale and d.settled for name, d in its.items()),
        ready=sum(d.whole for d in its.values()),
        updating=len(begun | begin),
        under_way=bool(stale | begun),
    )


def _next(waiting: set[str], begun: set[str], busy: set[str], its: Mapping[str, NodeDeployment], most: int) -> set[str]:
    """Which nodes start: first those without ready pods, which count already; never more than `most` at a time."""
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
            told = f"all pods of {its.name} to be ready: {its.ready} of {its.replicas} are"
            return NodeWork(node.name, waits_for=told)
        return NodeWork(node.name, patch_deployment={which.due: None}, waits_for="the health port to answer")
    back = _back(which, node)
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
        if _detached(which, node) and not _mine(which, node):
            return NodeWork(node.name, waits_for=_OTHERS)
        out = detach(node.annotations, which.detachment, asked_at, node.noticed, now)
        if not out.done:
            if out.patch:  # its grace counts from now, also if somebody has taken off what was asked for before
                patch = {**out.patch, OWNER: f"{_owner(which)} {which.detachment.key}"}
                return NodeWork(node.name, {DETACH_ASKED: timestamp(now)}, patch, waits_for=out.waits_for)
            return NodeWork(node.name, waits_for=out.waits_for, again_in=out.again_in)
    if left := max(0.0, since + which.due_grace - now):
        return NodeWork(node.name, waits_for=f"the grace period, for {left:.0f} s", again_in=left)
    return NodeWork(node.name, apply=wanted)


def _drop(which: IngressDaemonSet, node: Node | None, its: NodeDeployment) -> NodeWork:
    """A Deployment whose node has gone or is no longer selected; what was asked of the node is taken back."""
    patch = taken_back(node.annotations, _owner(which)) if node is not None else {}
    return NodeWork(its.node, patch_node=patch, delete=its.name)


def _back(which: IngressDaemonSet, node: Node) -> DetachStep:
    """The next step back into the load balancer, of what this one has asked for."""
    mine = taken_back(node.annotations, _owner(which))
    if which.detachment is None or (_detached(which, node) and not mine):
        # Not by this one any more: who has it out puts it back.
        return DetachStep(done=not mine, patch=mine, waits_for="the annotation to be removed from the Node")
    back = attach(node.annotations, which.detachment)
    return replace(back, done=back.done and not mine, patch={**back.patch, **mine})


def _detached(which: IngressDaemonSet, node: Node) -> bool:
    return which.detachment is not None and asked(node.annotations, which.detachment)


def _mine(which: IngressDaemonSet, node: Node) -> bool:
    return bool(taken_back(node.annotations, _owner(which)))


def _owner(which: IngressDaemonSet) -> str:
    return f"{which.namespace}/{which.name}"


def _selected(which: IngressDaemonSet, nodes: Iterable[Node], running: set[str]) -> set[str]:
    """The nodes that get pods, as a DaemonSet's: by label, and unless a taint keeps new pods, or any, away."""
    given, found = tolerations(which), set[str]()
    for node in nodes:
        effects = ("NoExecute",) if node.name in running else ("NoExecute", "NoSchedule")
        against = [each for each in node.taints if each.effect in effects]
        if _selects(which.node_selector, node.labels) and tolerated(against, given):
            found.add(node.name)
    return found


def _revision(wanted: Mapping[str, Any]) -> str:
    return str(wanted["metadata"]["annotations"][REVISION])


def _selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
