"""Whether the API's clients noticed a step more than they may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.model.availability import Availability, Limits
from upgrader.model.outcome import Verdict, broken, holds, pending, unknown

__all__ = ["AvailabilityGate"]

_TOLD = 5
"""Failures that are told with a breach; the report has more."""


@dataclass(frozen=True)
class AvailabilityGate:
    """Holds while a step has cost clients no more than its limits.

    What was counted stays counted, so a breach never holds again.
    """

    step: str
    limits: Limits
    counts: Callable[[], Availability | None]
    """What the prober has counted so far; None when it no longer counts."""
    name: str = "availability"

    def look(self) -> Verdict:
        """Hold the step's counts against its limits."""
        seen = self.counts()
        if seen is None:
            return unknown("the availability prober is silent: what the API's clients see is not known")
        phase = seen.phase(self.step)
        if phase is None or not phase.requests:
            return pending("no request has been answered yet since the step began")
        gap = phase.longest_gap_ms / 1000
        said = f"{phase.failed} of {phase.requests} requests failed, longest gap {gap:.1f} s"
        if phase.failed <= self.limits.max_failed and gap <= self.limits.max_gap_seconds:
            return holds(said)
        failures = [str(failure) for failure in seen.failures if failure.phase == self.step]
        allowed = f"{self.limits.max_failed} and {self.limits.max_gap_seconds:g} s are allowed"
        return broken(f"the API's clients were disturbed: {said} ({allowed})", *failures[:_TOLD])
