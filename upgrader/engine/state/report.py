"""The report of a run, folded from its journal alone: so a run that crashed is reported as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from upgrader.engine.journal.decode import UnknownEvent
from upgrader.engine.journal.record import Record
from upgrader.model.event import (
    AvailabilityMeasured,
    Event,
    GateLooked,
    GatePassed,
    LockTakenOver,
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

__all__ = ["GateReport", "RecoveryReport", "Report", "StepReport", "fold", "follow"]


@dataclass(frozen=True)
class GateReport:
    """A gate of a step: whether it held, and for how long it was waited for."""

    name: str
    outcome: str
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class StepReport:
    """A step: passed, failed, undone, undo-failed, or in-doubt (started, and nothing more is known)."""

    name: str
    outcome: str
    seconds: float = 0.0
    apply_seconds: float = 0.0
    undo_seconds: float = 0.0
    summary: str = ""
    way_back: str = ""
    reason: str = ""
    gates: tuple[GateReport, ...] = ()


@dataclass(frozen=True)
class RecoveryReport:
    """A time that the API was brought back over SSH: succeeded, failed, or in-doubt (begun, and no more is known)."""

    outcome: str
    started: str
    reason: str
    """Why it was begun: what the API said last; for one that failed, why it did."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """A whole run. Times are ISO 8601 in UTC, durations seconds."""

    run: str = ""
    target: str = ""
    outcome: str = "interrupted"
    """succeeded, rolled-back, failed or interrupted; a journal without an end means interrupted."""
    started: str = ""
    ended: str = ""
    """When the last record was written."""
    seconds: float = 0.0
    """How long it was at work, in all processes that came to an end of their own."""
    reason: str = ""
    complete: bool = False
    """Whether the journal has the run's end; without it, the run was cut off, or is still at work."""
    doing: str = ""
    """What it was about when the journal ends; empty when the run came to its end."""
    planned: tuple[str, ...] = ()
    """The names of all steps in their order, begun or not."""
    steps: tuple[StepReport, ...] = ()
    """The steps that were begun."""
    recoveries: tuple[RecoveryReport, ...] = ()
    resumed_by: tuple[str, ...] = ()
    """Who went on with the run after it was interrupted, one after the other."""
    rollback_by: str = ""
    """Who asked for the run to be taken back, if anybody did."""
    lock_taken_from: str = ""
    """Who held the cluster's lock before this run took it over, and why it could; empty when nobody did."""
    availability: dict[str, Any] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """Types of records that this version of upgrader doesn't know: a newer one wrote them."""

    @property
    def is_upgrade(self) -> bool:
        """Whether it is a run of `upgrader run`, and not one of `adopt` or `recover`: its target is a version."""
        return self.target.startswith("v")

    def as_json(self) -> dict[str, Any]:
        """The shape of `report.json`."""
        return asdict(self)


def fold(records: Iterable[Record]) -> Report:
    """What the records say happened, as far as they go: every beginning of a journal has a report."""
    report = Report()
    for record in records:
        when = record.time.isoformat().replace("+00:00", "Z")
        report = follow(replace(report, ended=when), record.event, when)
    return report


def follow(report: Report, event: Event | UnknownEvent, when: str) -> Report:
    """The report after one more event, which happened at `when`."""
    match event:
        case RunStarted():
            return replace(
                report, run=event.run, target=event.target, started=when, planned=event.steps, doing="beginning"
            )
        case RunResumed():
            again = _open_again(report, event.run)
            return replace(again, resumed_by=(*report.resumed_by, event.by), doing="going on")
        case RollbackRequested():
            return replace(_open_again(report, event.run), rollback_by=event.by, doing="going back")
        case StepInspected():
            return replace(report, doing=f"{event.step}: {event.found}")
        case StepStarted():
            way_back = "" if event.way_back is None else str(event.way_back)
            step = StepReport(event.step, "in-doubt", summary=event.summary, way_back=way_back)
            return replace(report, steps=(*report.steps, step), doing=f"{event.step}: {event.summary}")
        case StepApplied():
            report = replace(report, doing=f"{event.step}: waiting for its gates")
            return _step(report, event.step, apply_seconds=event.seconds)
        case GateLooked():
            return _gate(report, event.step, event.gate, event.verdict.kind.value, event.verdict.reason)
        case GatePassed():
            return _gate(report, event.step, event.gate, "held", "", event.seconds)
        case StepEnded():
            report = replace(report, doing=f"{event.step}: {event.outcome}")
            return _step(report, event.step, outcome=event.outcome, seconds=event.seconds, reason=event.reason)
        case UndoStarted():
            return replace(report, doing=f"{event.step}: going back to {event.goal}")
        case UndoEnded():
            outcome = "undone" if event.succeeded else "undo-failed"
            report = replace(report, doing=f"{event.step}: {outcome}")
            return _step(report, event.step, outcome=outcome, undo_seconds=event.seconds)
        case RecoveryStarted():
            begun = RecoveryReport("in-doubt", when, event.reason)
            return replace(report, recoveries=(*report.recoveries, begun), doing="bringing the API back over SSH")
        case RecoveryEnded():
            return replace(report, recoveries=_recovered(report.recoveries, event))
        case LockTakenOver():
            return replace(report, lock_taken_from=f"{event.holder} ({event.why})")
        case AvailabilityMeasured():
            return replace(report, availability=asdict(event))
        case RunEnded():
            seconds = report.seconds + event.seconds
            over = replace(report, outcome=event.outcome, seconds=seconds, reason=event.reason)
            return replace(over, complete=True, doing="")
        case UnknownEvent():
            known = event.type in report.unknown
            return report if known else replace(report, unknown=(*report.unknown, event.type))
        case _:
            return report


def _open_again(report: Report, run: str) -> Report:
    return replace(report, run=run, outcome="interrupted", complete=False, reason="")


def _step(report: Report, name: str, **changes: Any) -> Report:
    steps = tuple(replace(step, **changes) if step.name == name else step for step in report.steps)
    return replace(report, steps=steps)


def _recovered(recoveries: tuple[RecoveryReport, ...], event: RecoveryEnded) -> tuple[RecoveryReport, ...]:
    *before, last = recoveries or (RecoveryReport("in-doubt", "", ""),)
    outcome = "succeeded" if event.succeeded else "failed"
    return (*before, replace(last, outcome=outcome, seconds=event.seconds, reason=event.reason or last.reason))


def _gate(report: Report, step_name: str, gate: str, outcome: str, reason: str, seconds: float = 0.0) -> Report:
    for step in report.steps:
        if step.name == step_name:
            others = tuple(g for g in step.gates if g.name != gate)
            return _step(report, step_name, gates=(*others, GateReport(gate, outcome, seconds, reason)))
    return report
