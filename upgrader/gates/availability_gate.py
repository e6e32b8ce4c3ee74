"""The gate of the API's clients: a step that disturbs them more than its limits allow has failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.errors import GateFailed
from upgrader.model.availability import Availability, Limits
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, VerdictKind, broken, holds, pending, unknown
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step

__all__ = ["AvailabilityGate", "with_availability_gates"]

_SHOWN = 5
"""Failures that a breach names; the report has more."""


@dataclass(frozen=True)
class AvailabilityGate:
    """A step's failed requests and gaps are within its limits. Counts only grow, so a failure is final."""

    step: str
    limits: Limits
    counts: Callable[[], Availability | None]
    """What the prober has counted so far; None when it no longer reports."""
    name: str = "availability"

    def check(self) -> Verdict:
        """Compare the step's counts with its limits."""
        seen = self.counts()
        if seen is None:
            return unknown(
                "the availability prober sends no results: the API's availability is unknown",
                remedy="Find out what blocks it, such as a busy machine; or turn it off: "
                "`availability.requestsPerSecond: 0`.",
            )
        phase = seen.phase(self.step)
        if phase is None or not phase.requests:
            return pending(
                "no request has been answered since the step began",
                remedy="Check that this machine reaches the addresses in `availability.addresses`.",
            )
        gap = phase.longest_gap_ms / 1000
        counted = f"{phase.failed} of {phase.requests} requests failed, longest gap {gap:.1f} s"
        if phase.failed <= self.limits.max_failed and gap <= self.limits.max_gap_seconds:
            return holds(counted)
        failures = [str(failure) for failure in seen.failures if failure.phase == self.step]
        allowed = f"allowed: {self.limits.max_failed}, and {self.limits.max_gap_seconds:g} s"
        breach = broken(
            f"the API's availability is outside its limits: {counted} ({allowed})",
            *failures[:_SHOWN],
            remedy="Find out what the failures have in common. If they are acceptable, raise `availability.maxFailed` "
            "or `availability.maxGap` of the step in upgrader.yaml.",
        )
        return replace(breach, certain=True)


def with_availability_gates(
    pipeline: Pipeline, counts: Callable[[], Availability | None], limits: Callable[[str], Limits]
) -> Pipeline:
    """The pipeline with a gate on each step that changes something; `limits` are those of a step's name.

    A release's breach is seen while Helm still waits, and ends that wait. A rollback has no such gate: it is completed
    whatever it costs the clients.
    """
    return Pipeline(tuple(_gated(item, counts, limits(item.step.name)) for item in pipeline.steps))


def _gated(item: PipelineStep, counts: Callable[[], Availability | None], limits: Limits) -> PipelineStep:
    if not item.changes:
        return item
    gate = AvailabilityGate(item.step.name, limits, counts)
    gated = replace(item, gates=(*item.gates, _asked_like(item.gates, gate)))
    make = item.watched
    if make is None:
        return gated

    def watched(check: Callable[[], None]) -> Step:
        def both() -> None:
            _check(gate)
            check()

        return make(both)

    return replace(gated, step=watched(lambda: None), watched=watched)


def _asked_like(others: tuple[GateRun, ...], gate: AvailabilityGate) -> GateRun:
    like = replace(others[0], gate=gate) if others else GateRun(gate, GatePolicy())
    return replace(like, asks_nothing=True)


def _check(gate: AvailabilityGate) -> None:
    verdict = gate.check()
    if verdict.kind is VerdictKind.BROKEN:
        raise GateFailed(f"gate {gate.name}: " + "\n".join(verdict.lines()), remedy=verdict.remedy)
