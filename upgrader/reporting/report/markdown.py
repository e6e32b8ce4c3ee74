"""`report.md`: a summary for a merge request's comment or a CI job's page. Others' texts are in code only."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.engine.state.run_state import RunState
from upgrader.model.redaction.markdown import block, code, details, prose, table
from upgrader.model.time_text import milliseconds
from upgrader.reporting.report.headline import Tone
from upgrader.reporting.report.view import RunView, StepRow, view_of

__all__ = ["report_markdown"]

_MARKS: dict[Tone, str] = {"good": "✔", "back": "↶", "bad": "✘", "open": "?", "active": "▸", "idle": "·"}
_STEPS = 50
_FAILURES = 10
"""How many rows are shown at most: forges cut long comments off."""
_CHARACTERS = 4000


def report_markdown(state: RunState, *, running: bool = False) -> str:
    """The summary of a run."""
    view = view_of(state, running=running)
    return "\n\n".join(_parts(view)) + "\n"


def _parts(view: RunView) -> Iterator[str]:
    head, state = view.headline, view.state
    yield f"### {_MARKS[head.tone]} {head.title}: {head.outcome.lower()}"
    yield prose(head.sentence)
    if view.cause:
        yield block(_cut(view.cause))
    if head.advice:
        yield f"**Next:** {prose(head.advice)}"
    if head.commands:
        yield block("\n".join(head.commands), "console")
    yield _figures(view)
    if view.steps:
        yield table(("", "step", "outcome", "time", "change"), list(map(_row, view.steps[:_STEPS])))
    if len(view.steps) > _STEPS:
        yield f"… and {len(view.steps) - _STEPS} more steps."
    yield from _failed_gates(view)
    if state.skipped:
        lines = (f"- {code(item.id)} {code(item.found)}, because: {code(item.reason)}" for item in state.skipped)
        yield details(str(len(state.skipped)), "skipped checks", "\n".join(lines))
    if state.warnings:
        lines = (f"- {code(each.id)} {code(each.found)}" for each in state.warnings)
        yield details(str(len(state.warnings)), "warnings of checks", "\n".join(lines))


def _figures(view: RunView) -> str:
    state, lane = view.state, view.lane
    facts = [f"run {code(state.run)}"] if state.run else []
    if view.took:
        facts.append(view.took)
    if state.current:
        after = view.version_after or "not known"
        same = after == str(state.current)
        facts.append(f"Kubernetes {after}, as before" if same else f"Kubernetes {state.current} → {after}")
    if lane is None:
        facts.append("availability of the API: not known")
    else:
        seen = lane.measured
        gap = milliseconds(seen.longest_gap_ms)
        facts.append(f"API: {seen.failed:,} of {seen.requests:,} requests failed, longest gap {gap}")
    return " · ".join(facts)


def _row(step: StepRow) -> tuple[str, ...]:
    summary = code(step.summary) if step.summary else ""
    return _MARKS[step.tone], code(step.name), step.status, step.took, summary


def _failed_gates(view: RunView) -> Iterator[str]:
    """The results of gates that did not pass, folded; the run's cause is above."""
    found = [(step, gate) for step in view.steps for gate in step.gates if gate.status != "passed" and gate.reason]
    for step, gate in found[:_FAILURES]:
        text = "\n".join(line for line in (gate.reason, gate.evidence, gate.remedy) if line)
        yield details(f"{step.name}: {gate.name}", gate.status, block(_cut(text)))
    if len(found) > _FAILURES:
        yield f"… and {len(found) - _FAILURES} more gates that did not pass."


def _cut(text: str) -> str:
    more = len(text) - _CHARACTERS
    return f"{text[:_CHARACTERS]}\n… {more} more characters" if more > 0 else text
