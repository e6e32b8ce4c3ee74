"""A failed rollback of a playbook, which a person has completed by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.engine.conftest import TARGET, Bench, ScriptedGate, run
from upgrader.engine.execution.runner import RunResult
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import RollbackFailed, StepFailed
from upgrader.model.event import Note, RunResumed, RunStarted
from upgrader.model.outcome import Verdict, broken, holds
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.steps.playbook.undone_by_hand import undone_by_hand

Steps = Callable[[Verdict], tuple[PipelineStep, PipelineStep]]


@pytest.fixture
def steps(bench: Bench) -> Steps:
    """A step that passes, and one that fails and has no way back; afterwards its gate has this verdict."""

    def made(verdict: Verdict) -> tuple[PipelineStep, PipelineStep]:
        no_way_back = {"apply_error": StepFailed("disk full"), "undo_error": RollbackFailed("it has no undo")}
        return bench.step("a"), bench.step("b", undo_gates=(ScriptedGate("fine", last=verdict),), **no_way_back)

    return made


def stuck(bench: Bench, steps: tuple[PipelineStep, ...]) -> RunState:
    """The state of a run of these steps, whose rollback has failed."""
    assert run(bench.runner(), *steps).outcome == "failed"
    assert bench.diary == ["apply a", "apply b", "undo b to 1"]
    state = RunState()
    names = tuple(item.step.name for item in steps)
    for event in (RunStarted("r1", RunKind.UPGRADE, names, "/tmp/r1", TARGET), *bench.recorder.events):
        state = follow(state, event, bench.clock.now())
    bench.diary.clear()
    bench.recorder.events = []
    return state


def resumed(bench: Bench, state: RunState, steps: tuple[PipelineStep, ...]) -> RunResult:
    """Resume it, with the word of a person for `b`."""
    return bench.runner().resume(undone_by_hand(Pipeline(steps), "b", "ann@desk"), state, RunResumed("r1", "ann@desk"))


def test_the_rollback_goes_on(bench: Bench, steps: Steps) -> None:
    """Nothing is run for the step, the one before it is rolled back, and the journal has whose word was taken."""
    made = steps(holds("healthy"))
    result = resumed(bench, stuck(bench, made), made)
    assert (result.outcome, bench.diary) == ("rolled-back", ["undo a to 1"])
    notes = [event.text for event in bench.recorder.events if isinstance(event, Note)]
    assert any("b: reverted by hand, as ann@desk confirmed" in text for text in notes)


def test_gates_judge_what_was_said(bench: Bench, steps: Steps) -> None:
    """Where the step's gate says that the cluster isn't healthy, the word counts for nothing, and the run stops."""
    made = steps(broken("the file is still there"))
    result = resumed(bench, stuck(bench, made), made)
    assert (result.outcome, bench.diary) == ("failed", [])
    assert "the file is still there" in result.reason
