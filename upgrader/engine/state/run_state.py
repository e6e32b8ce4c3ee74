"""How far a run got, folded from its events alone: what both a living run and one that is resumed decide by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from upgrader.engine.journal.decode import UnknownEvent
from upgrader.engine.journal.record import Record
from upgrader.model.event import (
    Event,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepApplied,
    StepEnded,
    StepInput,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import RestorePoint
from upgrader.model.settings import OnFailure

__all__ = ["Phase", "RunState", "StepState", "follow", "state_of"]

Phase = Literal["begun", "applied", "passed", "failed", "undoing", "undone", "undo-failed"]
"""`begun`: its change may be in, in part or as a whole; `applied`: it is, and its gates are to be held."""


@dataclass(frozen=True)
class StepState:
    """A step that was begun."""

    name: str
    phase: Phase
    summary: str = ""
    way_back: RestorePoint | None = None
    """None: there is nothing to take back."""
    reason: str = ""
    """Why it failed, or could not be undone."""
    remedy: str = ""
    written: bool = True
    """Whether its beginning is in the journal; one that failed before that can be begun anew."""

    @property
    def to_undo(self) -> bool:
        """Whether it has something to take back that was not taken back yet."""
        return self.way_back is not None and self.phase not in ("undone", "undo-failed")


@dataclass(frozen=True)
class RunState:
    """A run, as far as its journal goes."""

    run: str = ""
    target: str = ""
    came_from: str = ""
    """The API server's version before the run."""
    planned: tuple[str, ...] = ()
    inputs: tuple[StepInput, ...] = ()
    on_failure: OnFailure = "rollback-run"
    steps: tuple[StepState, ...] = ()
    """Those that were begun, in the order in which they were."""
    failure: StepState | None = None
    """The step that failed first, as it was then."""
    back_to: str | None = None
    """A person asked for a rollback to this step ("": of everything); None: nobody did."""
    outcome: RunOutcome | None = None
    """None: it is at work, or was cut off."""

    @property
    def over(self) -> bool:
        """Whether it reached an end that needs nobody."""
        return self.outcome in ("succeeded", "rolled-back")

    @property
    def going_back(self) -> bool:
        """Whether it no longer goes forward: a step has failed, or a rollback was asked for."""
        return self.back_to is not None or self.failure is not None

    @property
    def way_back(self) -> tuple[StepState, ...]:
        """The steps that going back is about, in the order in which they are undone; undone ones too.

        After a failure, what policy says; when a person asked, all that came after the step they named.
        """
        if self.back_to is not None:
            names = [step.name for step in self.steps]
            kept = names.index(self.back_to) + 1 if self.back_to in names else 0
            return self.steps[kept:][::-1]
        if self.failure is None or self.on_failure == "stop":
            return ()
        if self.on_failure == "rollback-step":
            return tuple(step for step in self.steps if step.name == self.failure.name)
        return self.steps[::-1]

    def step(self, name: str) -> StepState | None:
        """The step of that name; None when it was not begun."""
        return next((step for step in self.steps if step.name == name), None)


def state_of(records: Iterable[Record]) -> RunState:
    """How far the run of these records got: every beginning of a journal has a state."""
    state = RunState()
    for record in records:
        state = follow(state, record.event)
    return state


def follow(state: RunState, event: Event | UnknownEvent) -> RunState:
    """The state after one more event. Total: an event that makes no sense where it stands changes nothing."""
    match event:
        case RunStarted():
            return RunState(
                run=event.run,
                target=event.target,
                came_from=event.came_from,
                planned=event.steps,
                inputs=event.inputs,
                on_failure=event.on_failure,
            )
        case RunResumed():
            return _tried_again(state)
        case RollbackRequested():
            return replace(state, steps=_undone_again(state), back_to=event.to, outcome=None)
        case StepStarted():
            return _begun(state, StepState(event.step, "begun", event.summary, event.way_back))
        case StepInspected(applied=True) | StepApplied():
            return _moved(state, event.step, "begun", phase="applied")
        case StepEnded(outcome="passed"):
            return _moved(state, event.step, "applied", phase="passed")
        case StepEnded(outcome="failed"):
            return _failed(state, event)
        case UndoStarted():
            return _moved(state, event.step, "begun", "applied", "passed", "failed", phase="undoing")
        case UndoEnded():
            phase: Phase = "undone" if event.succeeded else "undo-failed"
            return _moved(state, event.step, "undoing", phase=phase, reason=event.reason, remedy=event.remedy)
        case RunEnded():
            return replace(state, outcome=event.outcome)
        case _:
            return state


def _tried_again(state: RunState) -> RunState:
    """Somebody goes on, and may have mended what was in the way: what failed for good is tried once more."""
    if state.outcome == "failed" and state.on_failure == "stop" and state.back_to is None:
        steps = tuple(
            replace(step, phase="begun", reason="", remedy="") if step.phase == "failed" else step
            for step in state.steps
            if step.written or step.phase != "failed"
        )
        return replace(state, steps=steps, failure=None, outcome=None)
    return replace(state, steps=_undone_again(state), outcome=None)


def _undone_again(state: RunState) -> tuple[StepState, ...]:
    return tuple(replace(step, phase="failed") if step.phase == "undo-failed" else step for step in state.steps)


def _begun(state: RunState, step: StepState) -> RunState:
    known = state.step(step.name) is not None
    return state if known else replace(state, steps=(*state.steps, step))


def _failed(state: RunState, event: StepEnded) -> RunState:
    """A step can fail before it is begun, when there is no way back to write down."""
    state = _begun(state, StepState(event.step, "begun", written=False))
    state = _moved(state, event.step, "begun", "applied", phase="failed", reason=event.reason, remedy=event.remedy)
    failed = state.step(event.step)
    return replace(state, failure=state.failure or failed)


def _moved(state: RunState, name: str, *since: Phase, phase: Phase, reason: str = "", remedy: str = "") -> RunState:
    """The step in another phase, if it is in one of `since`."""
    steps = tuple(
        replace(step, phase=phase, reason=reason, remedy=remedy) if step.name == name and step.phase in since else step
        for step in state.steps
    )
    return replace(state, steps=steps)
