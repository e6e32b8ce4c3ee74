"""The one fold of a run's events into its state. Pure and total: an event that makes no sense in its place changes
nothing, so every prefix of a journal has a state.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from upgrader.engine.journal.decode import UnknownEvent
from upgrader.engine.journal.record import Record
from upgrader.engine.state.copies import changed
from upgrader.engine.state.run_state import MAX_NOTES, GateState, RecoveryState, RunState, StepState, TimedNote
from upgrader.engine.state.timeline import extended
from upgrader.model.event import (
    ApprovalRequested,
    AvailabilityMeasured,
    BaselineTaken,
    Event,
    GateChecked,
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
    StepApproved,
    StepEnded,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
    WebhookSwitched,
    WebhookSwitching,
)
from upgrader.model.outcome import StepPhase

__all__ = ["fold", "follow", "switched"]


def fold(records: Iterable[Record]) -> RunState:
    """The state of the run of these records."""
    state = RunState()
    for record in records:
        state = follow(state, record.event, record.time)
    return state


def follow(state: RunState, event: Event | UnknownEvent, time: datetime) -> RunState:
    """The state after one more event, which happened at `time`."""
    after = _after(state, event, time)
    spans = extended(state.spans, event, time, state.updated)
    text = _told(event)
    if not text:
        return changed(after, updated=time, spans=spans)
    notes = (*after.notes, TimedNote(time, text))
    left_out = after.notes_left_out + max(0, len(notes) - MAX_NOTES)
    return changed(after, updated=time, spans=spans, notes=notes[-MAX_NOTES:], notes_left_out=left_out)


def _told(event: Event | UnknownEvent) -> str:
    """What reports say of this event; "" for nothing."""
    match event:
        case Note():
            return event.text
        case RunResumed():
            return f"resumed by {event.by}"
        case RollbackRequested():
            return f"rollback{f' to {event.to}' if event.to else ''} requested by {event.by}"
        case LockTakenOver():
            return f"the cluster's lock was taken over from {event.holder}: {event.why}"
        case StepApproved():
            return f"{event.step}: approved by {event.by}: {event.reason}"
        case RecoveryStarted():
            return f"recovering the API over SSH: {event.reason}"
        case RecoveryEnded():
            return "the API answers again" if event.succeeded else f"the API could not be recovered: {event.reason}"
        case WebhookSwitched():
            return switched(event)
        case _:
            return ""


def switched(event: WebhookSwitched) -> str:
    """What became of a webhook, in one sentence."""
    if event.succeeded:
        how = "switched off: it can't be reached, and blocked a request of the run" if event.off else "on again"
        return f"webhook {event.which} is {how}"
    how = "can't be switched off" if event.off else "stays off"
    return f"webhook {event.which} {how}: {event.reason}" + (f". {event.remedy}" if event.remedy else "")


def _after(state: RunState, event: Event | UnknownEvent, time: datetime) -> RunState:
    match event:
        case RunStarted():
            return _started(state, event, time)
        case RunResumed():
            again = changed(_retried(state), resumed_by=(*state.resumed_by, event.by))
            return _reopened(again, event.run, "resuming", time)
        case RollbackRequested():
            undo = changed(state, steps=_to_undo_again(state), rollback_to=event.to, rollback_by=event.by)
            return _reopened(undo, event.run, "rolling back", time)
        case BaselineTaken():
            return changed(state, baseline=event.baseline, baseline_taken=time)
        case ApprovalRequested():
            return changed(state, doing=f"{event.step}: waiting for `upgrader approve {event.step}`")
        case StepApproved():
            return changed(state, approvals=(*state.approvals, event), doing=f"{event.step}: approved by {event.by}")
        case StepStarted() | StepInspected() | StepApplied() | StepEnded():
            return _forward(state, event, time)
        case GateChecked() | GatePassed():
            return _gate(state, event)
        case UndoStarted() | UndoEnded():
            return _back(state, event, time)
        case RecoveryStarted():
            begun = RecoveryState("active", time, event.reason)
            doing = "recovering the API over SSH"
            return _noted(changed(state, recoveries=(*state.recoveries, begun), doing=doing), doing)
        case RecoveryEnded():
            return _recovered(state, event, time)
        case WebhookSwitching() | WebhookSwitched():
            return _webhook(state, event)
        case LockTakenOver():
            return changed(state, lock_taken_from=f"{event.holder} ({event.why})")
        case Note():
            return _noted(state, event.text)
        case AvailabilityMeasured():
            return changed(state, availability=event)
        case RunEnded():
            seconds = state.seconds + event.seconds
            return changed(state, outcome=event.outcome, reason=event.reason, seconds=seconds, doing="")
        case UnknownEvent():
            known = event.type in state.unknown
            return state if known else changed(state, unknown=(*state.unknown, event.type))


def _started(state: RunState, event: RunStarted, time: datetime) -> RunState:
    """Anew, but for what came before it: that the run took the cluster's lock over from another process."""
    return RunState(
        lock_taken_from=state.lock_taken_from,
        notes=state.notes,
        notes_left_out=state.notes_left_out,
        run=event.run,
        kind=event.kind,
        sequence=event.sequence,
        target=event.target,
        current=event.current,
        mixed=event.mixed,
        goal=event.goal or event.target,
        emulated=event.emulated,
        campaign=event.campaign,
        planned=event.steps,
        inputs=event.inputs,
        health_before=event.health_before,
        on_failure=event.on_failure,
        skipped=event.skipped,
        severities=event.severities,
        warnings=event.warnings,
        started=time,
        active_since=time,
        doing="starting",
    )


def _reopened(state: RunState, run: str, doing: str, time: datetime) -> RunState:
    # What an interrupted process last showed of a step is of the past.
    steps = tuple(changed(step, since=time, check=None, note="") if step.active else step for step in state.steps)
    if state.over:  # its sentinel was removed
        state = changed(state, baseline=None, baseline_taken=None)
    return changed(state, run=run, outcome=None, reason="", active_since=time, doing=doing, steps=steps)


def _retried(state: RunState) -> RunState:
    """The operator may have fixed the cause before resuming: what failed for good is tried again."""
    if state.outcome == "failed" and state.on_failure == "stop" and state.rollback_to is None:
        steps = tuple(
            changed(step, phase="applying", reason="", remedy="") if step.phase == "failed" else step
            for step in state.steps
            if step.recorded or step.phase != "failed"
        )
        return changed(state, steps=steps, failure=None)
    return changed(state, steps=_to_undo_again(state))


def _to_undo_again(state: RunState) -> tuple[StepState, ...]:
    return tuple(changed(step, phase="failed") if step.phase == "undo-failed" else step for step in state.steps)


def _forward(state: RunState, event: StepStarted | StepInspected | StepApplied | StepEnded, time: datetime) -> RunState:
    name = event.step
    match event:
        case StepStarted():
            begun = StepState(
                name,
                "applying",
                event.summary,
                event.restore_point,
                prepares=event.prepares,
                since=time,
                clock_ahead=event.clock_ahead,
            )
            return changed(_begun(state, begun), doing=f"{name}: {event.summary}")
        case StepInspected():
            state = _changed(changed(state, doing=f"{name}: {event.found}"), name, since=time, note=event.found)
            return _moved(state, name, "applying", phase="gating", revision=event.revision) if event.applied else state
        case StepApplied():
            state = changed(state, doing=f"{name}: waiting for its gates")
            applied = {"apply_seconds": event.seconds, "revision": event.revision}
            return _moved(state, name, "applying", phase="gating", note="", **applied)
        case StepEnded():
            state = changed(state, doing=f"{name}: {event.outcome}")
            ended = {"seconds": event.seconds, "check": None, "note": ""}
            if event.outcome == "passed":
                return _moved(state, name, "gating", phase="passed", **ended)
            # A step can fail before it is begun, when it has no restore point to record.
            state = _begun(state, StepState(name, "applying", recorded=False))
            ended |= {"reason": event.reason, "remedy": event.remedy}
            state = _moved(state, name, "applying", "gating", phase="failed", **ended)
            return changed(state, failure=state.failure or state.step(name))


def _gate(state: RunState, event: GateChecked | GatePassed) -> RunState:
    step = state.step(event.step)
    if step is None:
        return state
    others = tuple(gate for gate in step.gates if gate.name != event.gate)
    if isinstance(event, GatePassed):
        held = GateState(event.gate, "passed", event.seconds)
        return _changed(state, event.step, gates=(*others, held), check=None)
    verdict = event.verdict
    seen = GateState(event.gate, verdict.kind.value, 0.0, verdict.reason, verdict.details, verdict.remedy)
    return _changed(state, event.step, gates=(*others, seen), check=event)


def _back(state: RunState, event: UndoStarted | UndoEnded, time: datetime) -> RunState:
    name = event.step
    if isinstance(event, UndoStarted):
        state = changed(state, doing=f"{name}: rolling back to {event.goal}")
        since: tuple[StepPhase, ...] = ("applying", "gating", "passed", "failed")
        return _moved(state, name, *since, phase="undoing", goal=event.goal, since=time, check=None)
    phase: StepPhase = "undone" if event.succeeded else "undo-failed"
    state = changed(state, doing=f"{name}: {phase}")
    ended = {"undo_seconds": event.seconds, "undo_reason": event.reason, "undo_remedy": event.remedy}
    return _moved(state, name, "undoing", phase=phase, check=None, note="", **ended)


def _recovered(state: RunState, event: RecoveryEnded, time: datetime) -> RunState:
    *before, last = state.recoveries or (RecoveryState("active", time, ""),)
    outcome = "succeeded" if event.succeeded else "failed"
    ended = changed(last, outcome=outcome, seconds=event.seconds, reason=event.reason or last.reason)
    state = changed(state, recoveries=(*before, ended))
    return _noted(state, "the API answers again" if event.succeeded else event.reason)


def _webhook(state: RunState, event: WebhookSwitching | WebhookSwitched) -> RunState:
    """One that is about to be switched off counts as off: whether it is can only be seen in the cluster."""
    others = tuple(which for which in state.webhooks_off if which != event.which)
    if isinstance(event, WebhookSwitching):
        known = state.webhooks_off if event.which in state.webhooks_off else (*others, event.which)
        return changed(state, webhooks_off=known) if event.off else state
    state = _noted(state, switched(event))
    return changed(state, webhooks_off=others) if event.succeeded and not event.off else state


def _noted(state: RunState, text: str) -> RunState:
    active = next((step.name for step in reversed(state.steps) if step.active), "")
    return _changed(state, active, note=text)


def _begun(state: RunState, step: StepState) -> RunState:
    known = state.step(step.name) is not None
    return state if known else changed(state, steps=(*state.steps, step))


def _moved(state: RunState, name: str, *since: StepPhase, **changes: Any) -> RunState:
    """The step with these changes, if it is in one of the phases `since`."""
    step = state.step(name)
    return _changed(state, name, **changes) if step and step.phase in since else state


def _changed(state: RunState, name: str, **changes: Any) -> RunState:
    place = len(state.steps) - 1
    while place >= 0 and state.steps[place].name != name:  # it is nearly always the newest
        place -= 1
    if place < 0:
        return state
    step = changed(state.steps[place], **changes)
    return changed(state, steps=(*state.steps[:place], step, *state.steps[place + 1 :]))
