"""The words and the tone of each outcome. A mark and a word show it; the colour only repeats it."""

from __future__ import annotations

from upgrader.engine.state.run_state import StepState
from upgrader.engine.state.timeline import Span
from upgrader.model.time_text import duration
from upgrader.reporting.report.headline import Tone

__all__ = ["gate_status", "span_status", "step_seconds", "step_status"]

_STEPS: dict[str, tuple[Tone, str]] = {
    "waiting": ("idle", "pending"),
    "applying": ("open", "interrupted while applying"),
    "gating": ("open", "interrupted while its gates were checked"),
    "undoing": ("open", "interrupted while rolling back"),
    "passed": ("good", "passed"),
    "failed": ("bad", "failed"),
    "undone": ("back", "rolled back"),
    "undo-failed": ("bad", "could not be rolled back"),
}
_GATES: dict[str, tuple[Tone, str]] = {
    "passed": ("good", "passed"),
    "holds": ("open", "passed, but not often enough in a row"),
    "pending": ("bad", "not met"),
    "broken": ("bad", "broken"),
    "unknown": ("open", "could not be checked"),
    "interrupted": ("open", "interrupted"),
}


def step_status(step: StepState, *, running: bool = False) -> tuple[Tone, str]:
    """Of a step: its tone, and a few words."""
    tone, words = _STEPS[step.phase]
    if running and step.active:
        return "active", {"applying": "applying", "gating": "waiting for its gates", "undoing": "rolling back"}[
            step.phase
        ]
    if step.phase == "undone" and step.reason:
        return tone, "failed, rolled back"
    return tone, words


def gate_status(outcome: str) -> tuple[Tone, str]:
    """Of a gate, by its outcome in the journal."""
    return _GATES.get(outcome, ("open", outcome or "not known"))


def span_status(span: Span) -> str:
    """The tooltip of a bar: the activity and its duration."""
    what = {"apply": "change", "gates": "gates", "undo": "rollback", "recovery": "recovery of the API over SSH"}
    name = f"gate {span.gate}" if span.kind == "gate" else what[span.kind]
    took = f", {duration((span.ended - span.began).total_seconds())}" if span.ended else ""
    ended = f": {gate_status(span.outcome)[1]}" if span.kind == "gate" else ""
    return f"{name}{ended}{took}"


def step_seconds(step: StepState) -> float:
    """How long it took, with its rollback."""
    return step.seconds + step.undo_seconds
