"""A run as it looks at one moment, folded from its events. Pure; the console draws it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from upgrader.model.event import (
    AvailabilityMeasured,
    Event,
    GateLooked,
    GatePassed,
    LockTakenOver,
    Note,
    RecoveryEnded,
    RecoveryStarted,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepApplied,
    StepEnded,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
)

__all__ = ["Progress", "State", "StepProgress", "follow"]

State = Literal["waiting", "applying", "gating", "passed", "failed", "undoing", "undone", "undo-failed", "in-doubt"]


@dataclass(frozen=True)
class StepProgress:
    """One step. `since` is when its present activity began, `seconds` how long a finished one took."""

    name: str
    state: State = "waiting"
    summary: str = ""
    since: float = 0.0
    seconds: float | None = None
    reason: str = ""
    look: GateLooked | None = None
    """The gate that is being waited for, as it looked last."""
    gates_passed: int = 0
    note: str = ""
    """The last thing that was said while this step was at work."""

    @property
    def active(self) -> bool:
        """Whether something is going on."""
        return self.state in ("applying", "gating", "undoing")


@dataclass(frozen=True)
class Progress:
    """A whole run; times are monotonic seconds."""

    run: str = ""
    target: str = ""
    started: float = 0.0
    steps: tuple[StepProgress, ...] = ()
    availability: AvailabilityMeasured | None = None
    ended: RunEnded | None = None


def follow(progress: Progress, event: Event, now: float) -> Progress:
    """The run after one more event, which happened at `now`."""
    match event:
        case RunStarted():
            steps = tuple(StepProgress(name) for name in event.steps)
            return Progress(event.run, event.target, now, steps)
        case StepStarted():
            return _step(progress, event.step, state="applying", summary=event.summary, since=now)
        case RunResumed() | RollbackRequested():
            return replace(progress, started=now, ended=None)
        case StepInspected():
            return _step(progress, event.step, state="applying", since=now, note=event.found)
        case StepApplied():
            return _step(progress, event.step, state="gating", note="")
        case GateLooked():
            return _step(progress, event.step, look=event)
        case GatePassed():
            passed = next((s.gates_passed for s in progress.steps if s.name == event.step), 0)
            return _step(progress, event.step, look=None, gates_passed=passed + 1)
        case StepEnded():
            return _step(
                progress,
                event.step,
                state=event.outcome,
                seconds=event.seconds,
                reason=event.reason,
                look=None,
                note="",
            )
        case UndoStarted():
            return _step(
                progress,
                event.step,
                state="undoing",
                summary=f"back to {event.goal}",
                since=now,
                seconds=None,
                look=None,
            )
        case UndoEnded():
            state: State = "undone" if event.succeeded else "undo-failed"
            return _step(
                progress, event.step, state=state, seconds=event.seconds, reason=event.reason, look=None, note=""
            )
        case RecoveryStarted():
            return _noted(progress, "bringing the API back over SSH")
        case RecoveryEnded():
            return _noted(progress, "the API is back" if event.succeeded else event.reason)
        case LockTakenOver():
            return progress
        case Note():
            return _noted(progress, event.text)
        case AvailabilityMeasured():
            return replace(progress, availability=event)
        case RunEnded():
            return replace(progress, ended=event)


def _noted(progress: Progress, text: str) -> Progress:
    active = next((step.name for step in progress.steps if step.active), "")
    return _step(progress, active, note=text)


def _step(progress: Progress, name: str, **changes: object) -> Progress:
    steps = tuple(replace(step, **changes) if step.name == name else step for step in progress.steps)  # type: ignore[arg-type]
    return replace(progress, steps=steps)
