"""`report.json`: a run's state for machines, and the JSON Schema of it (`docs/reference/report.schema.json`).

It is made from the journal, so a run that crashed is reported as far as it is known. What was measured over time is
in a file of its own, of which it has the sums.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from upgrader.engine.state.run_state import GateState, RunState, StepState
from upgrader.model.availability_series import SeriesSummary
from upgrader.model.baseline import Baseline
from upgrader.model.event import AvailabilityMeasured, ChangedSeverity, SkippedCheck, Warned
from upgrader.model.json_schema import schema_of
from upgrader.model.outcome import RunOutcome, StepPhase
from upgrader.model.run_kind import RunKind

__all__ = ["FORMAT_VERSION", "Report", "render", "report_json"]

FORMAT_VERSION: Literal["1.0"] = "1.0"
"""Of the JSON: the second number goes up when fields are added, the first when a reader would misunderstand them."""


@dataclass(frozen=True)
class NotKnown:
    """An object without fields: it was not measured, or not recorded."""


@dataclass(frozen=True)
class ReportedGate:
    """A gate of a step: `passed`, or its last verdict, with the reason and the evidence of that check."""

    name: str
    outcome: str
    seconds: float
    reason: str
    details: tuple[str, ...]
    remedy: str


@dataclass(frozen=True)
class ReportedStep:
    """A step that was begun. One that was interrupted has its phase as outcome (`applying`, `gating`, `undoing`)."""

    name: str
    outcome: StepPhase
    seconds: float
    apply_seconds: float
    undo_seconds: float
    summary: str
    restore_point: str
    revision: int
    reason: str
    remedy: str
    undo_reason: str
    undo_remedy: str
    gates: tuple[ReportedGate, ...]


@dataclass(frozen=True)
class ReportedRecovery:
    """One recovery of the API over SSH: `succeeded`, `failed`, or `active` where its end was not recorded."""

    outcome: str
    started: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class ReportedSpan:
    """One activity: the `apply`, the `gates` or the `undo` of a step, one `gate` of it, or a `recovery` of the API."""

    kind: str
    step: str
    gate: str
    began: str
    ended: str
    outcome: str


@dataclass(frozen=True)
class ReportedNote:
    """What an operator was told, and when."""

    time: str
    text: str


@dataclass(frozen=True)
class Continuity:
    """What each step was compared with, and what could not be compared, with the reason."""

    compared: Mapping[str, object]
    not_compared: Mapping[str, str]


@dataclass(frozen=True)
class Report:
    """A run. Times are ISO 8601 in UTC ("" when not known), durations seconds.

    `outcome` of a run without an end is `interrupted`, and `complete` false. `steps` are those that were begun.
    """

    format_version: Literal["1.0"]
    run: str
    kind: RunKind | Literal[""]
    target: str
    goal: str
    current: str
    emulated: str
    outcome: RunOutcome
    started: str
    ended: str
    seconds: float
    reason: str
    complete: bool
    doing: str
    planned: tuple[str, ...]
    steps: tuple[ReportedStep, ...]
    timeline: tuple[ReportedSpan, ...]
    recoveries: tuple[ReportedRecovery, ...]
    resumed_by: tuple[str, ...]
    rollback_by: str
    lock_taken_from: str
    skipped: tuple[SkippedCheck, ...]
    severities: tuple[ChangedSeverity, ...]
    warnings: tuple[Warned, ...]
    continuity: Continuity | NotKnown
    availability: AvailabilityMeasured | NotKnown
    availability_series: SeriesSummary | NotKnown
    notes: tuple[ReportedNote, ...]
    notes_left_out: int
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, state: RunState, series: SeriesSummary | None = None) -> Report:
        """The report of a state, and of the series beside its journal."""
        return cls(
            format_version=FORMAT_VERSION,
            run=state.run,
            kind=state.kind if state.run else "",
            target=str(state.target or ""),
            goal=str(state.goal or ""),
            current=str(state.current or ""),
            emulated=state.emulated,
            outcome=state.result,
            started=_iso(state.started),
            ended=_iso(state.updated),
            seconds=state.seconds,
            reason=state.reason,
            complete=state.outcome is not None,
            doing=state.doing,
            planned=state.planned,
            steps=tuple(map(_step, state.steps)),
            timeline=tuple(
                ReportedSpan(span.kind, span.step, span.gate, _iso(span.began), _iso(span.ended), span.outcome)
                for span in state.spans
            ),
            recoveries=tuple(
                ReportedRecovery(item.outcome, _iso(item.started), item.reason, item.seconds)
                for item in state.recoveries
            ),
            resumed_by=state.resumed_by,
            rollback_by=state.rollback_by,
            lock_taken_from=state.lock_taken_from,
            skipped=state.skipped,
            severities=state.severities,
            warnings=state.warnings,
            continuity=_continuity(state.baseline),
            availability=state.availability or NotKnown(),
            availability_series=series or NotKnown(),
            notes=tuple(ReportedNote(_iso(note.time), note.text) for note in state.notes),
            notes_left_out=state.notes_left_out,
            unknown=state.unknown,
        )


def report_json(state: RunState, series: SeriesSummary | None = None) -> dict[str, Any]:
    """The report as JSON values; `series` None: there is none, or it was not read (as for `history`)."""
    return asdict(Report.of(state, series))


def render() -> str:
    """The schema (JSON Schema 2020-12) as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run's report.json",
        **_schema(),
    }
    schema["description"] += (
        "\n\nGenerated from upgrader/engine/state/report.py. The second number of format_version increases when "
        "fields are added, and the first number when older readers would misunderstand the new ones."
    )
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _schema() -> dict[str, Any]:
    """Values of any type have no schema of their own."""
    schema = schema_of(Report)
    nothing = {"type": "object", "maxProperties": 0, "description": NotKnown.__doc__}
    schema["properties"]["availability"]["anyOf"][1] = nothing
    schema["properties"]["availability_series"]["anyOf"][1] = nothing
    schema["properties"]["continuity"]["anyOf"][1] = nothing
    return schema


def _continuity(baseline: Baseline | None) -> Continuity | NotKnown:
    if baseline is None:
        return NotKnown()
    compared = {key: value for key, value in asdict(baseline).items() if value and key != "not_compared"}
    return Continuity(compared, {item.what: item.why for item in baseline.not_compared})


def _step(step: StepState) -> ReportedStep:
    return ReportedStep(
        name=step.name,
        outcome=step.phase,
        seconds=step.seconds,
        apply_seconds=step.apply_seconds,
        undo_seconds=step.undo_seconds,
        summary=step.summary,
        restore_point=str(step.restore_point or ""),
        revision=step.revision,
        reason=step.reason,
        remedy=step.remedy,
        undo_reason=step.undo_reason,
        undo_remedy=step.undo_remedy,
        gates=tuple(map(_gate, step.gates)),
    )


def _gate(gate: GateState) -> ReportedGate:
    return ReportedGate(gate.name, gate.outcome, gate.seconds, gate.reason, gate.details, gate.remedy)


def _iso(time: datetime | None) -> str:
    return time.isoformat().replace("+00:00", "Z") if time else ""


if __name__ == "__main__":
    sys.stdout.write(render())
