"""What a run does next. Pure: the same state, the same action, in the run's own process or in a later one.

Why nothing is done twice or halfway: each action begins with an event that is on disk before anything is changed, and
ends with one that says how it went. So wherever a run is cut off, its state names the one step whose change may be in
or not (`begun`, `undoing`): that one is observed first. What was done before it has an event that says so, and what
comes after it was not begun. Every action moves its step to a later phase (begun, applied, passed | failed, undoing,
undone | undo-failed), and no step goes back to an earlier one unless a person goes on with a run that failed, or asks
for a rollback: so a run ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.engine.state.run_state import RunState
from upgrader.model.outcome import RunOutcome

__all__ = ["Action", "Begin", "End", "GoOn", "Hold", "Undo", "next_action"]


@dataclass(frozen=True)
class Begin:
    """Capture a step's way back, and make its change."""

    step: str


@dataclass(frozen=True)
class GoOn:
    """Find out how far a step got that was cut off, and complete it."""

    step: str


@dataclass(frozen=True)
class Hold:
    """Hold the gates of a step whose change is in."""

    step: str


@dataclass(frozen=True)
class Undo:
    """Take a step back."""

    step: str
    cut_off: bool
    """Whether somebody may still be at work on it: it was cut off in its change, or while it was taken back."""
    safe_to_stop: bool
    """Whether the step is healthy as it is, so that a run which is to stop need not undo it first."""


@dataclass(frozen=True)
class End:
    """Nothing is left to do."""

    outcome: RunOutcome
    reason: str = ""
    remedy: str = ""


Action = Begin | GoOn | Hold | Undo | End


def next_action(state: RunState) -> Action:
    """The one thing to do in this state."""
    return _back(state) if state.going_back else _forward(state)


def _forward(state: RunState) -> Action:
    for step in state.steps:
        if step.phase == "begun":
            return GoOn(step.name)
        if step.phase == "applied":
            return Hold(step.name)
    begun = {step.name for step in state.steps}
    return next((Begin(name) for name in state.planned if name not in begun), End("succeeded"))


def _back(state: RunState) -> Action:
    """Newest first; one that can't be undone doesn't stop the rest."""
    for step in state.way_back:
        if step.to_undo:
            cut_off = step.phase in ("begun", "undoing")
            return Undo(step.name, cut_off=cut_off, safe_to_stop=step.phase == "passed")
    asked, failure = state.back_to is not None, state.failure
    reason = failure.reason if failure and not asked else ""
    remedy = failure.remedy if failure and not asked else ""
    stuck = [step for step in state.way_back if step.phase == "undo-failed"]
    if stuck:
        lines = [*filter(None, [reason]), "…and the way back failed:", *(step.reason for step in stuck)]
        return End("failed", "\n".join(lines), stuck[0].remedy or remedy)
    undone = any(step.phase == "undone" for step in state.way_back)
    return End("rolled-back" if undone or asked else "failed", reason, remedy)
