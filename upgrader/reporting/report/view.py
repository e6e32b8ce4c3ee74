"""The content of a report for people, as frozen values: the page and the Markdown are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.engine.state.timeline import Span
from upgrader.model.availability_series import NO_SERIES, AvailabilitySeries
from upgrader.model.time_text import duration
from upgrader.reporting.report.availability_lane import AvailabilityLane, availability_lane
from upgrader.reporting.report.bars import Bar, Scale, bar, scale_of
from upgrader.reporting.report.curve import Curve, curve_of
from upgrader.reporting.report.headline import Headline, Tone, headline
from upgrader.reporting.report.outcome_words import gate_status, span_status, step_seconds, step_status

__all__ = ["GateRow", "RunView", "StepRow", "view_of"]

_OPEN_STEPS = 12
"""More failed steps than these are folded, so that a page of many nodes begins with an overview."""
_MANY_STEPS = 30
"""From here on, rows are dense, and the steps to look at are named before them."""


@dataclass(frozen=True)
class GateRow:
    """A gate of a step."""

    name: str
    tone: Tone
    status: str
    took: str
    bars: tuple[Bar, ...]
    reason: str
    evidence: str
    remedy: str


@dataclass(frozen=True)
class StepRow:
    """A step, and what is known of it."""

    name: str
    tone: Tone
    status: str
    took: str
    bars: tuple[Bar, ...]
    gates: tuple[GateRow, ...]
    summary: str
    before: str
    """The state that a rollback restores; "" if there is nothing to undo."""
    revision: int
    reason: str
    remedy: str
    undo_failed: bool
    undo_reason: str
    undo_remedy: str
    prepares: bool
    unfolded: bool
    """Whether its details are shown at once."""
    begun: bool


@dataclass(frozen=True)
class RunView:
    """A run."""

    state: RunState
    headline: Headline
    took: str
    steps: tuple[StepRow, ...]
    passed: int
    scale: Scale
    recoveries: tuple[Bar, ...]
    recovered: bool
    """Whether every recovery of the API succeeded."""
    lane: AvailabilityLane | None
    curve: Curve | None
    no_curve: str
    """Why there is no curve; "" if there is one."""
    version_after: str
    many: bool
    to_look_at: tuple[tuple[int, str], ...]
    """The steps that did not pass, by their place, from 1."""
    cause: str
    """Why it did not succeed, with the evidence; "" if it did."""


def view_of(state: RunState, *, running: bool = False, series: AvailabilitySeries = NO_SERIES) -> RunView:
    """The view of a run; `running`: a process works on it now."""
    scale = scale_of(state)
    curve = curve_of(state, series, scale)
    end = state.updated or scale.began
    by_step: dict[str, list[Span]] = {}
    for span in state.spans:
        by_step.setdefault(span.step, []).append(span)
    failed = sum(step.phase in ("failed", "undo-failed") or bool(step.reason) for step in state.steps)
    rows = [
        _row(state, step, by_step.get(step.name, []), scale, end, running=running, unfold=failed <= _OPEN_STEPS)
        for step in state.all_steps
    ]
    return RunView(
        state=state,
        headline=headline(state, running=running),
        took=duration(state.seconds or scale.worked_seconds) if state.spans or state.seconds else "",
        steps=tuple(rows),
        passed=sum(step.phase == "passed" for step in state.steps),
        scale=scale,
        recoveries=tuple(_bars(by_step.get("", []), scale, end)),
        recovered=all(item.outcome == "succeeded" for item in state.recoveries),
        lane=availability_lane(state, scale, end),
        curve=curve,
        no_curve="" if curve else series.problem or "there are no samples from the time of this run",
        version_after=_version_after(state),
        many=len(rows) > _MANY_STEPS,
        to_look_at=tuple((place, row.name) for place, row in enumerate(rows, 1) if row.begun and row.tone != "good"),
        cause=_cause(state),
    )


def _cause(state: RunState) -> str:
    """What the run's own reason begins with is told as a whole: of a rollback that failed, or of the first failure."""
    stuck = next((step for step in state.steps if step.phase == "undo-failed"), None)
    if state.result == "succeeded":
        return ""
    if stuck is not None and stuck.undo_reason:
        return stuck.undo_reason
    return (state.failure.reason if state.failure else "") or state.reason


def _row(
    state: RunState,
    step: StepState,
    spans: list[Span],
    scale: Scale,
    end: datetime,
    *,
    running: bool,
    unfold: bool,
) -> StepRow:
    tone, status = step_status(step, running=running)
    failure = state.failure if state.failure and state.failure.name == step.name else None
    # An undo has gates of the same names: what the first failure saw of them is what explains it.
    gates = (failure or step).gates
    seconds = step_seconds(step)
    broken = bool(step.reason or step.undo_reason or step.active)
    return StepRow(
        name=step.name,
        tone=tone,
        status=status,
        took=duration(seconds) if seconds else "",
        bars=tuple(_bars([span for span in spans if span.kind != "gate"], scale, end)),
        gates=tuple(
            GateRow(
                gate.name,
                *gate_status(gate.outcome),
                duration(gate.seconds) if gate.seconds else "",
                tuple(_bars([span for span in spans if span.gate == gate.name], scale, end)),
                gate.reason,
                "" if _told(gate.details, step.reason) else "\n".join(gate.details),
                gate.remedy if gate.remedy != step.remedy else "",
            )
            for gate in gates
        ),
        summary=step.summary,
        before=str(step.restore_point) if step.restore_point else "",
        revision=step.revision,
        reason=step.reason,
        remedy=step.remedy,
        undo_failed=step.phase == "undo-failed",
        undo_reason=step.undo_reason,
        undo_remedy=step.undo_remedy,
        prepares=step.prepares,
        unfolded=broken and unfold,
        begun=step.phase != "waiting",
    )


def _told(details: tuple[str, ...], reason: str) -> bool:
    """Whether the step's reason has all of a gate's evidence, indented."""
    return all(detail in reason for detail in details)


def _bars(spans: list[Span], scale: Scale, end: datetime) -> list[Bar]:
    return [
        bar(scale, span.began, max(span.ended or end, span.began), _kind(span), span_status(span)) for span in spans
    ]


def _kind(span: Span) -> str:
    """For the style sheet; a name from a list, never text of a journal."""
    if span.kind == "gate":
        return f"gate {gate_status(span.outcome)[0]}"
    bad = span.outcome in ("failed", "undo-failed")
    return f"{span.kind} bad" if bad else f"{span.kind} cut" if span.outcome == "interrupted" else span.kind


def _version_after(state: RunState) -> str:
    """The control plane's version after the run; "" if unknown."""
    if state.outcome == "succeeded":
        return str(state.target or "")
    if state.outcome == "rolled-back" and state.rollback_to in (None, ""):
        return str(state.current or "")
    return ""
