"""Every PodProtector has as many pods as it wants, and they are counted: none is below its minimum before a run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.plan import PlannedNodes
from upgrader.model.protector import UNCOUNTED_SECONDS, Cell, PodProtector
from upgrader.model.workload import parse_time
from upgrader.ports import Kube
from upgrader.preflight.context import PreflightContext

__all__ = ["check_protectors"]

_AT_ONCE = 200
_SEE = "kubectl get podprotectors -A"
_NOT_FOUND = 404


def check_protectors(context: PreflightContext) -> Iterator[Finding]:
    """Each of the cluster, by its status. Where their kind isn't known there are none."""
    protectors = list(_protectors(context.kube))
    if not protectors:
        return
    now = context.kube.server_time()
    if uncounted := {item.place: text for item in protectors if (text := item.never_counted or _uncounted(item, now))}:
        yield Finding(
            "protectors.not-counted",
            "error",
            f"nobody counts the pods of PodProtectors: {first_few(list(uncounted))}",
            "\n".join(["What they allow and refuse stands on numbers that may be wrong.", *uncounted.values()]),
            f"Check guard's aggregators, one for each cell: {_SEE}. For a cell that is gone, take it out of their "
            "status.",
        )
    if below := {item.place: text for item in protectors if (text := item.below)}:
        yield Finding(
            "protectors.below-minimum",
            "error",
            f"PodProtectors are below their minimum: {first_few(list(below))}",
            "\n".join(["What they protect has no pod to spare, and a drain of its nodes waits.", *below.values()]),
            f"Repair the pods, or correct their minAvailable: {_SEE}",
        )
    steps = context.plan.steps if context.plan else ()
    drained = any(isinstance(step, PlannedNodes) and step.nodes for step in steps)
    gates = {f"{gate.namespace}/{gate.name}" for gate in context.workload_gates if gate.kind == "protector"}
    names = sorted({item.place for item in protectors} if drained else gates)
    if names:
        yield Finding(
            "protectors.met",
            "info",
            f"the run meets PodProtectors: {first_few(names)}",
            "Drains wait while they refuse an eviction, and gates that name them until they are whole.",
        )


def _protectors(kube: Kube) -> Iterator[PodProtector]:
    """Raises ApiError."""
    try:
        yield from map(PodProtector.parse, kube.each(POD_PROTECTORS, at_once=_AT_ONCE))
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise


def _uncounted(protector: PodProtector, now: datetime) -> str:
    """Which cell has stopped counting, as a sentence; "" for none.

    A check can't watch it for a minute, as a gate does. Clocks that are so far apart are a finding of their own.
    """
    silent = [cell.name for cell in protector.cells if _is_silent(cell, now)]
    if not silent:
        return ""
    return f"{protector}: cell {', '.join(silent)} has not counted for a minute the deletions that it has allowed"


def _is_silent(cell: Cell, now: datetime) -> bool:
    waiting = [item.allowed for item in cell.uncounted if item.allowed is not None]
    try:
        counted = parse_time(cell.counted)
    except ValueError:
        counted = None
    latest = max(filter(None, (min(waiting, default=None), counted)), default=None)
    return bool(waiting) and latest is not None and (now - latest).total_seconds() > UNCOUNTED_SECONDS
