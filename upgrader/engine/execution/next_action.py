"""What a run does next. Pure: the same state, the same action, in the run's own process or in a later one.

Why nothing is done twice or halfway: each action begins with an event that is on disk before anything is changed, and
ends with one that says how it went. So wherever a run is cut off, its state names the one step whose change may be in
or not (`applying`, `undoing`): that one is inspected first. What was done before it has an event that says so, and what
comes after it was not begun. Every action moves its step to a later phase (applying, gating, passed | failed, undoing,
undone | undo-failed), and no step returns to an earlier one unless an operator resumes a run that failed, or requests a
rollback: so a run ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.engine.state.run_state import RunState
from upgrader.model.outcome import RunOutcome

__all__ = ["Action", "Begin", "CheckGates", "Complete", "End", "Undo", "next_action"]


@dataclass(frozen=True)
class Begin:
    """Capture a step's restore point, and make its change."""

    step: str


@dataclass(frozen=True)
class Complete:
    """Inspect how far an interrupted step got, and complete it."""

    step: str


@dataclass(frozen=True)
class CheckGates:
    """Check the gates of a step whose change is in."""

    step: str


@dataclass(frozen=True)
class Undo:
    """Undo a step."""

    step: str
    interrupted: bool
    """Whether another process may still work on it: it was interrupted while it was applied or undone."""
    safe_to_stop: bool
    """Whether the step is healthy as it is, so that a run which is to stop need not undo it first."""


@dataclass(frozen=True)
class End:
    """Nothing is left to do."""

    outcome: RunOutcome
    reason: str = ""
    remedy: str = ""


Action = Begin | Complete | CheckGates | Undo | End


def next_action(state: RunState) -> Action:
    """The one thing to do in this state."""
    return _back(state) if state.rolling_back else _forward(state)


def _forward(state: RunState) -> Action:
    for step in state.steps:
        if step.phase == "applying":
            return Complete(step.name)
        if step.phase == "gating":
            return CheckGates(step.name)
    begun = {step.name for step in state.steps}
    return next((Begin(name) for name in state.planned if name not in begun), End("succeeded"))


def _back(state: RunState) -> Action:
    """Newest first; one that can't be undone doesn't stop the rest."""
    for step in state.rollback_order:
        if step.to_undo:
            interrupted = step.phase in ("applying", "undoing")
            return Undo(step.name, interrupted=interrupted, safe_to_stop=step.phase == "passed")
    requested, failure = state.rollback_to is not None, state.failure
    reason = failure.reason if failure and not requested else ""
    remedy = failure.remedy if failure and not requested else ""
    stuck = [step for step in state.rollback_order if step.phase == "undo-failed"]
    if stuck:
        lines = [*filter(None, [reason]), "…and the rollback failed:", *(step.undo_reason for step in stuck)]
        return End("failed", "\n".join(lines), stuck[0].undo_remedy or remedy)
    undone = any(step.phase == "undone" for step in state.rollback_order)
    return End("rolled-back" if undone or requested else "failed", reason, remedy)
