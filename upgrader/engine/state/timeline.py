"""When each part of a run began and ended, by the clock of the machine that ran it. A part of the one fold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from upgrader.engine.journal.decode import UnknownEvent
from upgrader.engine.state.copies import changed
from upgrader.model.event import (
    Event,
    GateChecked,
    GatePassed,
    LockTakenOver,
    RecoveryEnded,
    RecoveryStarted,
    RollbackRequested,
    RunEnded,
    RunResumed,
    StepApplied,
    StepEnded,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
)

__all__ = ["Span", "SpanKind", "extended"]

SpanKind = Literal["apply", "gates", "gate", "undo", "recovery"]


@dataclass(frozen=True)
class Span:
    """One activity of a run."""

    kind: SpanKind
    step: str
    """"" for a recovery of the API, which belongs to no step."""
    began: datetime
    ended: datetime | None = None
    """None: the journal has no end of it."""
    outcome: str = ""
    """As in the journal (`passed`, `undone`, a gate's last verdict, …); `interrupted` where its process was."""
    gate: str = ""
    """The gate's name, for a span of one gate."""


Spans = tuple[Span, ...]


def extended(spans: Spans, event: Event | UnknownEvent, time: datetime, last: datetime | None) -> Spans:
    """The spans after one more event at `time`; `last` is the time of the event before it."""
    match event:
        case StepStarted():
            return (*spans, Span("apply", event.step, time))
        case StepInspected():
            return (*_closed(spans, time, event.step), Span("gates" if event.applied else "apply", event.step, time))
        case StepApplied():
            return (*_closed(spans, time, event.step, "applied"), Span("gates", event.step, time))
        case GateChecked():
            return _checked(spans, event, time)
        case GatePassed():
            return _passed(spans, event, time)
        case StepEnded():
            if not any(span.step == event.step for span in spans):  # it failed before it was begun
                spans = (*spans, Span("apply", event.step, _before(time, event.seconds)))
            return _closed(spans, time, event.step, event.outcome)
        case UndoStarted():
            return (*_closed(spans, time, event.step), Span("undo", event.step, time))
        case UndoEnded():
            return _closed(spans, time, event.step, "undone" if event.succeeded else "undo-failed")
        case RecoveryStarted():
            return (*spans, Span("recovery", "", time))
        case RecoveryEnded():
            return _closed(spans, time, "", "succeeded" if event.succeeded else "failed")
        case RunResumed() | RollbackRequested() | LockTakenOver():  # the first record of another process
            return _interrupted(spans, last or time)
        case RunEnded():
            return _interrupted(spans, time)
        case _:
            return spans


def _checked(spans: Spans, event: GateChecked, time: datetime) -> Spans:
    found = _open_gate(spans, event.step, event.gate)
    verdict = event.verdict.kind.value
    if found is None:
        return (*spans, Span("gate", event.step, time, outcome=verdict, gate=event.gate))
    return _with(spans, found, changed(spans[found], outcome=verdict))


def _passed(spans: Spans, event: GatePassed, time: datetime) -> Spans:
    found = _open_gate(spans, event.step, event.gate)
    if found is None:
        held = Span("gate", event.step, _before(time, event.seconds), time, "passed", event.gate)
        return (*spans, held)
    return _with(spans, found, changed(spans[found], ended=time, outcome="passed"))


def _open_gate(spans: Spans, step: str, gate: str) -> int | None:
    """Where the open span of that gate is. The newest are looked at first, and no more than are of that step."""
    for index in range(len(spans) - 1, -1, -1):
        span = spans[index]
        if span.kind == "gate" and span.gate == gate and span.step == step:
            return index if span.ended is None else None
        if span.step == step and span.kind in ("apply", "gates", "undo"):
            return None
    return None


def _closed(spans: Spans, time: datetime, step: str, outcome: str = "") -> Spans:
    """What is open of a step ends at `time`; a gate keeps its own outcome."""
    return tuple(
        changed(span, ended=time, outcome=span.outcome if span.kind == "gate" else outcome)
        if span.ended is None and span.step == step
        else span
        for span in spans
    )


def _interrupted(spans: Spans, time: datetime) -> Spans:
    return tuple(changed(span, ended=time, outcome="interrupted") if span.ended is None else span for span in spans)


def _with(spans: Spans, index: int, span: Span) -> Spans:
    return (*spans[:index], span, *spans[index + 1 :])


def _before(time: datetime, seconds: float) -> datetime:
    """A journal may have any number there."""
    try:
        return time - timedelta(seconds=max(0.0, seconds))
    except OverflowError:
        return time
