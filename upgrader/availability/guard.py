"""Puts a pipeline's steps under the watch of the prober: a step that disturbs the API's clients has failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.errors import GateFailed
from upgrader.gates.availability_gate import AvailabilityGate
from upgrader.model.availability import Availability, Limits
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.settings import GatePolicy
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.steps.chart import ChartStep, Watcher
from upgrader.steps.verify import VerifyStep

__all__ = ["guarded"]


def guarded(pipeline: Pipeline, counts: Callable[[], Availability | None], limits: Callable[[str], Limits]) -> Pipeline:
    """The pipeline with a gate on each step that changes something; `limits` are those of a step's name.

    A release's breach is seen while Helm still waits, and ends that wait. The way back has no such gate: it is gone
    whatever it costs.
    """
    return Pipeline(tuple(_guarded(item, counts, limits(item.step.name)) for item in pipeline.steps))


def _guarded(item: PipelineStep, counts: Callable[[], Availability | None], limits: Limits) -> PipelineStep:
    if isinstance(item.step, VerifyStep):
        return item
    gate = AvailabilityGate(item.step.name, limits, counts)
    return replace(item, step=_watched(item.step, gate), gates=(*item.gates, _asked_like(item.gates, gate)))


def _asked_like(others: tuple[GateRun, ...], gate: AvailabilityGate) -> GateRun:
    return replace(others[0], gate=gate) if others else GateRun(gate, GatePolicy())


def _watched(step: Step, gate: AvailabilityGate) -> Step:
    if not isinstance(step, ChartStep):
        return step
    return replace(step, watcher=lambda: _Both(step.watcher(), gate))


@dataclass
class _Both:
    """Looks at a release's workloads, and at what clients see, while Helm waits."""

    workloads: Watcher
    gate: AvailabilityGate

    @property
    def last(self) -> tuple[Verdict, ...]:
        return self.workloads.last

    @last.setter
    def last(self, seen: tuple[Verdict, ...]) -> None:
        self.workloads.last = seen

    def __call__(self) -> None:
        self.workloads()  # first, as it knows causes
        verdict = self.gate.look()
        if verdict.kind is VerdictKind.BROKEN:
            raise GateFailed(f"gate {self.gate.name}: " + "\n".join(verdict.lines()), remedy=verdict.remedy)
