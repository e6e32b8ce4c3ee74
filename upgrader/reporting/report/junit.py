"""`junit.xml`: a run as test results, for CI systems.

Each step is a suite, and its change, its gates and its rollback are tests. Passed steps and gates are passed, failed
ones are failures, unknown ones are errors, and pending ones are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from upgrader.engine.state.run_state import GateState, RunState, StepState
from upgrader.model.first_words import first_words
from upgrader.model.run_kind import describe_run
from upgrader.rendering import BUILT_IN, Templates
from upgrader.reporting.report.headline import headline
from upgrader.reporting.report.outcome_words import gate_status, step_status

__all__ = ["Case", "Count", "Suite", "report_junit", "suites_of"]

Result = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class Case:
    """One test. `message` is one line, `text` all that is known."""

    name: str
    result: Result
    seconds: float = 0.0
    message: str = ""
    text: str = ""


@dataclass(frozen=True)
class Count:
    """How many tests ended how."""

    tests: int
    failures: int
    errors: int
    skipped: int

    @classmethod
    def of(cls, cases: Iterable[Case]) -> Count:
        """Of these tests."""
        results = [case.result for case in cases]
        return cls(len(results), results.count("failure"), results.count("error"), results.count("skipped"))


@dataclass(frozen=True)
class Suite:
    """A step, or the run as a whole."""

    name: str
    seconds: float
    cases: tuple[Case, ...]

    @property
    def count(self) -> Count:
        """How many of its tests ended how."""
        return Count.of(self.cases)


def report_junit(state: RunState, *, running: bool = False, templates: Templates = BUILT_IN) -> str:
    """The XML of a run."""
    suites = suites_of(state, running=running)
    return templates.render(
        "report/junit.xml.j2",
        suites=suites,
        total=Count.of(case for suite in suites for case in suite.cases),
        seconds=state.seconds,
        timestamp=state.started.strftime("%Y-%m-%dT%H:%M:%S") if state.started else "",
    )


def suites_of(state: RunState, *, running: bool = False) -> tuple[Suite, ...]:
    """The run, then every step, begun or not."""
    return (_run(state, running=running), *(_suite(state, step) for step in state.all_steps))


def _run(state: RunState, *, running: bool) -> Suite:
    said = headline(state, running=running)
    results: dict[str, Result] = {"succeeded": "passed", "interrupted": "error"}
    result = results.get(state.result, "failure")
    if state.outcome == "rolled-back" and state.failure is None:
        result = "passed"  # as it was requested
    name = describe_run(state.kind, state.target) if state.run else "run"
    case = Case(name, result, state.seconds, said.sentence, state.reason or said.sentence)
    return Suite("run", state.seconds, (case,))


def _suite(state: RunState, step: StepState) -> Suite:
    as_failed = state.failure if state.failure and state.failure.name == step.name else step
    gates = as_failed.gates  # its undo has gates of the same names
    cases = (_change(step), *(_gate(gate, step) for gate in gates), *_rollback(step))
    return Suite(step.name, step.seconds + step.undo_seconds, cases)


def _change(step: StepState) -> Case:
    name, seconds = "change and gates", step.seconds or step.apply_seconds
    if step.phase == "waiting":
        return Case(name, "skipped", message="pending")
    if step.reason:
        return Case(name, "failure", seconds, first_words(step.reason), _with_remedy(step.reason, step.remedy))
    if step.phase in ("applying", "gating") or (step.phase == "undoing" and not step.seconds):
        text = step_status(step)[1]
        return Case(name, "error", seconds, text, _with_remedy(step.note or text, ""))
    return Case(name, "failure", seconds, "failed") if step.phase == "failed" else Case(name, "passed", seconds)


def _gate(gate: GateState, step: StepState) -> Case:
    name = f"gate {gate.name}"
    if gate.outcome == "passed":
        return Case(name, "passed", gate.seconds)
    text = _with_remedy("\n".join((gate.reason, *gate.details)), gate.remedy)
    message = f"{gate_status(gate.outcome)[1]}: {first_words(gate.reason)}"
    decided = gate.outcome in ("pending", "broken") and bool(step.reason or step.undo_reason)
    if decided or gate.outcome == "broken":
        return Case(name, "failure", gate.seconds, message, text)
    if gate.outcome == "holds" and step.reason:
        return Case(name, "skipped", gate.seconds, "its last check had passed when another gate failed")
    return Case(name, "error", gate.seconds, message, text)


def _rollback(step: StepState) -> tuple[Case, ...]:
    match step.phase:
        case "undone":
            return (Case("rollback", "passed", step.undo_seconds),)
        case "undo-failed":
            text = _with_remedy(step.undo_reason, step.undo_remedy)
            return (Case("rollback", "failure", step.undo_seconds, first_words(step.undo_reason), text),)
        case "undoing":
            return (Case("rollback", "error", step.undo_seconds, step_status(step)[1], step.note),)
        case _:
            return ()


def _with_remedy(text: str, remedy: str) -> str:
    return f"{text}\n\nRemedy: {remedy}" if remedy else text
