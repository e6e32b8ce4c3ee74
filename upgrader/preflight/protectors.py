"""Every PodProtector counts its pods, and none is below its minimum before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from http import HTTPStatus
from math import inf

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.protector import SILENT_SECONDS, Cell, PodProtector
from upgrader.model.workload import parse_time, selects
from upgrader.ports import Kube
from upgrader.preflight.context import PODS, PreflightContext
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.nodes.pods_to_drain import pods_to_drain
from upgrader.steps.plan import planned_of

__all__ = ["check_protectors"]

_AT_ONCE = 200
_SEE = "kubectl get podprotectors -A"


def check_protectors(context: PreflightContext) -> Iterator[Finding]:
    """Each of the cluster, by its status. Where their kind isn't known there are none."""
    protectors = list(_protectors(context.kube))
    if not protectors:
        return
    now = context.kube.server_time()
    if uncounted := {item.place: text for item in protectors if (text := item.never_counted or _silent(item, now))}:
        yield Finding(
            "protectors.not-counted",
            "error",
            f"the pods of these PodProtectors aren't counted: {first_few(list(uncounted))}",
            "\n".join(["They allow and deny evictions based on counts that might be wrong.", *uncounted.values()]),
            f"Check guard's aggregators, one for each cell: {_SEE}. Remove a cell that is gone: upgrader guard "
            "forget-cell CELL.",
        )
    if below := {item.place: text for item in protectors if (text := item.below)}:
        yield Finding(
            "protectors.below-minimum",
            "error",
            f"PodProtectors are below their minimum: {first_few(list(below))}",
            "\n".join(["None of their pods can be evicted, so a drain of their nodes waits.", *below.values()]),
            f"Repair the pods, or correct their minAvailable: {_SEE}",
        )
    steps = planned_of(context.plan, PlannedNodes)
    yield from _never_allow(context, steps, [item for item in protectors if item.never_allows and not item.below])
    drained = any(step.nodes for step in steps)
    gates = {f"{gate.namespace}/{gate.name}" for gate in context.workload_gates if gate.kind == "protector"}
    names = sorted({item.place for item in protectors} if drained else gates)
    if names:
        yield Finding(
            "protectors.met",
            "info",
            f"PodProtectors can delay the run: {first_few(names)}",
            "A drain waits while a PodProtector denies an eviction. A gate for a PodProtector waits until the "
            "PodProtector is at its minimum.",
        )


def _never_allow(
    context: PreflightContext, steps: Sequence[PlannedNodes], protectors: Sequence[PodProtector]
) -> Iterator[Finding]:
    """Of protectors that let no pod go, those of pods on nodes that are to be drained."""
    fails = {node.node: step.pool.drain.on_blocked == "fail" for step in steps for node in step.nodes}
    met: dict[str, tuple[str, bool]] = {}
    for found in context.kube.each(PODS, at_once=500) if fails and protectors else ():
        node = (found.get("spec") or {}).get("nodeName", "")
        if node not in fails:
            continue
        for pod in pods_to_drain((found,), controller=node in context.controllers).owned:
            for item in protectors:
                if item.namespace == pod.namespace and selects(item.selector, pod.labels):
                    before = met.get(item.place, ("", False))
                    met[item.place] = (before[0] or f"{item.place} (pod {pod} on {node})", before[1] or fails[node])
    if met:
        yield Finding(
            "protectors.never-allow",
            "error" if any(fail for _, fail in met.values()) else "warning",
            f"these PodProtectors never allow the drain of a node: {first_few([text for text, _ in met.values()])}",
            "They require all of their pods to be available, so every eviction is refused. By default, the rollout of "
            "a Deployment with up to three replicas keeps all of them available.",
            "Run more replicas, set strategy.rollingUpdate.maxUnavailable of the Deployment to at least 1, or correct "
            f"the PodProtector's minAvailable: {_SEE}",
        )


def _protectors(kube: Kube) -> Iterator[PodProtector]:
    """Raises ApiError."""
    try:
        yield from map(PodProtector.parse, kube.each(POD_PROTECTORS, at_once=_AT_ONCE))
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND and not (error.status == HTTPStatus.FORBIDDEN and _unknown(kube)):
            raise


def _unknown(kube: Kube) -> bool:
    """Whether the API server has no such kind: a user without the right to it gets 403 in any case."""
    try:
        kube.raw(f"/apis/{POD_PROTECTORS.api_version}")
    except ApiError as error:
        return error.status == HTTPStatus.NOT_FOUND
    return False


def _silent(protector: PodProtector, now: datetime) -> str:
    """The cell that is no longer counted, as a sentence; "" for none. A check can't watch for minutes, as a gate does:
    it compares the API server's clock with the aggregator's.
    """
    cells = [cell for cell in protector.cells if _age(cell, now) > SILENT_SECONDS]
    named = ", ".join(f"cell {cell.name} since {cell.counted}" for cell in cells)
    return f"{protector}: no aggregator has counted {named}; it is now {now:%Y-%m-%dT%H:%M:%SZ}" if cells else ""


def _age(cell: Cell, now: datetime) -> float:
    try:
        counted = parse_time(cell.counted)
    except ValueError:
        counted = None
    return (now - counted).total_seconds() if counted is not None and counted.tzinfo else inf
