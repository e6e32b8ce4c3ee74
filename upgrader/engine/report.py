"""The report of a run, folded from its journal alone: so a run that crashed is reported as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from upgrader.engine.journal import Record
from upgrader.model.release import RestorePoint

__all__ = ["GateReport", "Report", "StepReport", "fold"]


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
class Report:
    """A whole run. Times are ISO 8601 in UTC, durations seconds."""

    run: str = ""
    target: str = ""
    outcome: str = "interrupted"
    """succeeded, rolled-back, failed or interrupted; a journal without an end means interrupted."""
    started: str = ""
    ended: str = ""
    seconds: float = 0.0
    reason: str = ""
    steps: tuple[StepReport, ...] = ()
    availability: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The shape of `report.json`."""
        return asdict(self)


def fold(records: Iterable[Record]) -> Report:
    """What the records say happened. Record types it doesn't know are passed over, so old code reads new journals."""
    report = Report()
    for record in records:
        report = _next(report, record)
    return report


def _next(report: Report, record: Record) -> Report:
    data, when = record.data, record.time.isoformat().replace("+00:00", "Z")
    report = replace(report, ended=when)
    match record.type:
        case "RunStarted":
            return replace(report, run=data["run"], target=data["target"], started=when)
        case "StepStarted":
            step = StepReport(data["step"], "in-doubt", summary=data["summary"], way_back=_way_back(data["way_back"]))
            return replace(report, steps=(*report.steps, step))
        case "StepApplied":
            return _step(report, data["step"], apply_seconds=data["seconds"])
        case "GateLooked":
            return _gate(report, data["step"], data["gate"], data["verdict"]["kind"], data["verdict"]["reason"])
        case "GatePassed":
            return _gate(report, data["step"], data["gate"], "held", "", data["seconds"])
        case "StepEnded":
            return _step(report, data["step"], outcome=data["outcome"], seconds=data["seconds"], reason=data["reason"])
        case "UndoEnded":
            outcome = "undone" if data["succeeded"] else "undo-failed"
            return _step(report, data["step"], outcome=outcome, undo_seconds=data["seconds"])
        case "AvailabilityMeasured":
            return replace(report, availability=data)
        case "RunEnded":
            return replace(report, outcome=data["outcome"], seconds=data["seconds"], reason=data["reason"])
        case _:
            return report


def _way_back(point: dict[str, Any] | None) -> str:
    return "" if point is None else str(RestorePoint(**point))


def _step(report: Report, name: str, **changes: Any) -> Report:
    steps = tuple(replace(step, **changes) if step.name == name else step for step in report.steps)
    return replace(report, steps=steps)


def _gate(report: Report, step_name: str, gate: str, outcome: str, reason: str, seconds: float = 0.0) -> Report:
    for step in report.steps:
        if step.name == step_name:
            others = tuple(g for g in step.gates if g.name != gate)
            return _step(report, step_name, gates=(*others, GateReport(gate, outcome, seconds, reason)))
    return report
