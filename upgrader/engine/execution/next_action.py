"""Decides what a run does next. Pure: the same state gives the same action, in this process or in a later one.

Why nothing is done twice or left incomplete: each action begins with an event that is on disk before anything changes,
and ends with an event that records the result. So wherever a run is interrupted, its state names the one step whose
change may or may not be in place (`applying`, `undoing`): that step is inspected first. Earlier steps have recorded
results; later ones have not begun. Every action moves its step to a later phase (applying, gating, passed | failed,
undoing, undone | undo-failed). No step returns to an earlier phase unless an operator resumes a failed run or requests
a rollback: so every run ends.
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
    """Check the gates of a step whose change is in place."""

    step: str


@dataclass(frozen=True)
class Undo:
    """Undo a step."""

    step: str
    interrupted: bool
    """Whether another process may still work on it: it was interrupted while being applied or undone."""
    safe_to_stop: bool
    """Whether the step is healthy as it is, so that a run may stop before undoing it."""


@dataclass(frozen=True)
class End:
    """Nothing is left to do."""

    outcome: RunOutcome
    reason: str = ""
    remedy: str = ""


Action = Begin | Complete | CheckGates | Undo | End


def next_action(state: RunState) -> Action:
    """The next action in this state."""
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
    """Newest first. Later steps build on earlier ones: so none is undone while a later one is still in place.

    An API server that is rolled back under newer components, for instance, is a skew that Kubernetes forbids.
    """
    order = state.rollback_order
    stuck = next((step for step in order if step.phase == "undo-failed"), None)
    for step in order[: order.index(stuck)] if stuck else order:
        if step.to_undo:
            interrupted = step.phase in ("applying", "undoing")
            return Undo(step.name, interrupted=interrupted, safe_to_stop=step.phase == "passed")
    requested, failure = state.rollback_to is not None, state.failure
    reason = failure.reason if failure and not requested else ""
    remedy = failure.remedy if failure and not requested else ""
    if stuck:
        kept = [step.name for step in order if step.to_undo]
        because = f"Not rolled back, because the later step {stuck.name} is still in place: {', '.join(kept)}"
        lines = [*filter(None, [reason]), "…and the rollback failed:", stuck.undo_reason, *([because] if kept else [])]
        return End("failed", "\n".join(lines), stuck.undo_remedy or remedy)
    undone = any(step.phase == "undone" for step in order)
    return End("rolled-back" if undone or requested or state.untouched else "failed", reason, remedy)
