"""How gates, steps and runs end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from upgrader.model.json_values import NOT_IN_JSON

__all__ = ["RunOutcome", "StepPhase", "StepResult", "Verdict", "VerdictKind", "broken", "holds", "pending", "unknown"]

StepPhase = Literal["waiting", "applying", "gating", "passed", "failed", "undoing", "undone", "undo-failed"]
"""The status of a step, in the journal's state, in reports and on the screen.

`waiting`: not begun. `applying`: its change may have been made, in part or completely. `gating`: the change has been
made, and its gates are checked.
"""
StepResult = Literal["passed", "failed"]
"""The result of applying a step and checking its gates."""
RunOutcome = Literal["succeeded", "rolled-back", "failed", "interrupted"]


class VerdictKind(StrEnum):
    """The result of one check."""

    HOLDS = "holds"
    PENDING = "pending"
    """Not yet met, but it may be met by waiting."""
    BROKEN = "broken"
    """Waiting won't help: a crash loop, an image that can't be pulled, …"""
    UNKNOWN = "unknown"
    """The check got no answer. Counts neither as healthy nor as broken."""


@dataclass(frozen=True)
class Verdict:
    """One check of a gate. `reason` is one sentence: the object, its state and why."""

    kind: VerdictKind
    reason: str
    details: tuple[str, ...] = ()
    """Evidence: events, container states, the last log lines."""
    remedy: str = ""
    """What to do about it; only a passed gate has none."""
    failing: bool = False
    """Whether something has failed already, although waiting may still help."""
    certain: bool = field(default=False, metadata=NOT_IN_JSON)
    """Of what is broken: whether earlier checks have said so for long, so that no further one is needed."""
    again_at: float | None = field(default=None, metadata=NOT_IN_JSON)
    """Of what is waited for: when another check decides (monotonic); None where nothing says when."""

    def lines(self) -> tuple[str, ...]:
        """The reason, then the details, indented."""
        return (self.reason, *(f"  {detail}" for detail in self.details))


def holds(reason: str) -> Verdict:
    """The gate's condition is met now."""
    return Verdict(VerdictKind.HOLDS, reason)


def pending(reason: str, *details: str, remedy: str = "Find out what it waits for: see the details above.") -> Verdict:
    """The condition is not met yet."""
    return Verdict(VerdictKind.PENDING, reason, details, remedy)


def broken(reason: str, *details: str, remedy: str = "Fix the cause above.") -> Verdict:
    """The condition can't be met by waiting."""
    return Verdict(VerdictKind.BROKEN, reason, details, remedy)


def unknown(reason: str, *details: str, remedy: str = "Find out why this can't be checked.") -> Verdict:
    """The condition could not be checked."""
    return Verdict(VerdictKind.UNKNOWN, reason, details, remedy)
