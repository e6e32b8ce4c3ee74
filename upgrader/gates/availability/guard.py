"""Enforces the limits of availability: a step that disturbs the API's clients has failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from upgrader.errors import GateFailed
from upgrader.gates.availability_gate import AvailabilityGate
from upgrader.model.availability import Availability, Limits
from upgrader.model.outcome import VerdictKind
from upgrader.model.settings import GatePolicy
from upgrader.pipeline import GateRun, Pipeline, PipelineStep

__all__ = ["guarded"]


def guarded(pipeline: Pipeline, counts: Callable[[], Availability | None], limits: Callable[[str], Limits]) -> Pipeline:
    """The pipeline with a gate on each step that changes something; `limits` are those of a step's name.

    A release's breach is seen while Helm still waits, and ends that wait. A rollback has no such gate: it is completed
    whatever it costs the clients.
    """
    return Pipeline(tuple(_guarded(item, counts, limits(item.step.name)) for item in pipeline.steps))


def _guarded(item: PipelineStep, counts: Callable[[], Availability | None], limits: Limits) -> PipelineStep:
    if not item.changes:
        return item
    gate = AvailabilityGate(item.step.name, limits, counts)
    step = item.watched(lambda: _check(gate)) if item.watched else item.step
    return replace(item, step=step, gates=(*item.gates, _asked_like(item.gates, gate)))


def _asked_like(others: tuple[GateRun, ...], gate: AvailabilityGate) -> GateRun:
    return replace(others[0], gate=gate) if others else GateRun(gate, GatePolicy())


def _check(gate: AvailabilityGate) -> None:
    verdict = gate.check()
    if verdict.kind is VerdictKind.BROKEN:
        raise GateFailed(f"gate {gate.name}: " + "\n".join(verdict.lines()), remedy=verdict.remedy)
