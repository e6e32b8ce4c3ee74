"""The gate of the API's clients: a step disturbs them no more than its limits allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.model.availability import Availability, Limits
from upgrader.model.outcome import Verdict, broken, holds, pending, unknown

__all__ = ["AvailabilityGate"]

_SHOWN = 5
"""Failures that a breach names; the report has more."""


@dataclass(frozen=True)
class AvailabilityGate:
    """Holds while a step's failed requests and gaps are within its limits. Counts only grow, so a breach is final."""

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
        return broken(
            f"the API's availability is outside its limits: {counted} ({allowed})",
            *failures[:_SHOWN],
            remedy="Find out what the failures have in common. If they are acceptable, raise `availability.maxFailed` "
            "or `availability.maxGap` of the step in upgrader.yaml.",
        )
