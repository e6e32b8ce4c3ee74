"""The run loop: order, gates, and the way back."""

from __future__ import annotations

import pytest

from tests.unit.engine.conftest import Bench, ScriptedGate, run
from upgrader.engine.runner import RunResult
from upgrader.errors import ApiUnavailable, RollbackFailed, StepFailed
from upgrader.model.event import StepEnded, StepStarted, UndoEnded
from upgrader.model.outcome import broken, holds, pending, unknown
from upgrader.pipeline import PipelineStep
from upgrader.steps.verify import VerifyStep


def test_steps_are_applied_in_order(bench: Bench) -> None:
    """A pipeline's order is the order of its steps, and all passing makes the run a success."""
    result = run(bench.runner(), bench.step("a"), bench.step("b"))
    assert result == RunResult("succeeded")
    assert bench.diary == ["apply a", "apply b"]


def test_next_step_waits_for_the_gate(bench: Bench) -> None:
    """A step is begun only after the gate of the one before has held three times in a row."""
    gate = ScriptedGate(
        "g", iter([pending("1 of 2"), holds("ok"), pending("flap"), holds("ok"), holds("ok"), holds("ok")])
    )
    run(bench.runner(), bench.step("a", gate), bench.step("b"))
    began = [event.step for event in bench.recorder.events if isinstance(event, StepStarted)]
    assert began == ["a", "b"]
    assert bench.clock.monotonic() >= 5.0, "six looks, one second apart"


def test_failed_step_takes_the_run_back_in_reverse(bench: Bench) -> None:
    """A step that fails is undone first, then the earlier ones of this run, newest first."""
    bad = bench.step("b", apply_error=StepFailed("bad flag"))
    result = run(bench.runner(), bench.step("a"), bad, bench.step("c"))
    assert result == RunResult("rolled-back", "bad flag")
    assert bench.diary == ["apply a", "apply b", "undo b to 1", "undo a to 1"]


def test_gate_that_never_holds_takes_both_steps_back(bench: Bench) -> None:
    """A gate on the second step that never holds undoes the second step, then the first, with the gate's reason."""
    never = ScriptedGate("deployment/never", last=pending("0 of 1 ready"))
    result = run(bench.runner(), bench.step("a"), bench.step("b", never))
    assert isinstance(result, RunResult)
    assert result.outcome == "rolled-back"
    assert "deployment/never" in result.reason and "0 of 1 ready" in result.reason
    assert bench.diary[-2:] == ["undo b to 1", "undo a to 1"]


def test_unknown_is_not_healthy(bench: Bench) -> None:
    """A gate that can't find out fails like one that knows the answer is no, and says that it doesn't know."""
    blind = ScriptedGate("nodes", last=unknown("the API does not answer"))
    result = run(bench.runner(), bench.step("a", blind))
    assert isinstance(result, RunResult)
    assert result.outcome == "rolled-back"
    assert "does not answer" in result.reason


def test_broken_gate_does_not_wait_for_its_deadline(bench: Bench) -> None:
    """A gate that says `broken` three times in a row ends the wait at once, with the evidence in the message."""
    crash = ScriptedGate("deployment/x", last=broken("exits with 1", "Error: unknown flag: --nonsense"))
    result = run(bench.runner(), bench.step("a", crash))
    assert isinstance(result, RunResult)
    assert "unknown flag: --nonsense" in result.reason
    assert bench.clock.monotonic() < 10.0


def test_one_broken_glimpse_is_forgiven(bench: Bench) -> None:
    """A single `broken` look, as at the moment of a container's first restart, fails nothing."""
    gate = ScriptedGate("g", iter([broken("restarted once"), pending("starting")]), last=holds("ok"))
    gate.verdicts = iter([broken("restarted once"), pending("starting"), holds("ok")])
    assert run(bench.runner(), bench.step("a", gate)) == RunResult("succeeded")


def test_undo_goes_on_past_a_failed_undo(bench: Bench) -> None:
    """One undo that fails doesn't keep the others from being tried, and the run says that a person is needed."""
    stuck = bench.step("b", apply_error=StepFailed("bad flag"), undo_error=RollbackFailed("no revision", remedy="look"))
    result = run(bench.runner(), bench.step("a"), stuck)
    assert isinstance(result, RunResult)
    assert (result.outcome, result.remedy) == ("failed", "look")
    assert "bad flag" in result.reason and "no revision" in result.reason
    assert bench.diary[-1] == "undo a to 1"


def test_undone_step_is_gated_again(bench: Bench) -> None:
    """A rollback counts only when the old revision is seen healthy afterwards."""
    sick = ScriptedGate("nodes", last=pending("NotReady"))
    result = run(bench.runner(), bench.step("a", undo_gates=(sick,), apply_error=StepFailed("bad")))
    assert isinstance(result, RunResult)
    assert result.outcome == "failed"
    ended = [event for event in bench.recorder.events if isinstance(event, UndoEnded)]
    assert not ended[0].succeeded and "NotReady" in ended[0].reason


@pytest.mark.parametrize(("policy", "undone"), [("rollback-step", ["undo b to 1"]), ("stop", [])])
def test_policy_says_how_far_back(bench: Bench, policy: str, undone: list[str]) -> None:
    """Policy can keep the earlier steps, or leave everything as the failure left it."""
    bad = bench.step("b", apply_error=StepFailed("bad"))
    result = run(bench.runner(policy), bench.step("a"), bad)  # type: ignore[arg-type]
    assert isinstance(result, RunResult)
    assert result.outcome == ("rolled-back" if undone else "failed")
    assert bench.diary[2:] == undone


def test_way_back_waits_for_the_api(bench: Bench) -> None:
    """With the API away after a failed step, the undo waits until it answers instead of failing at once."""
    answers: list[str | Exception] = [ApiUnavailable("refused"), ApiUnavailable("refused"), "ok"]
    bench.kube.raw_answers["/readyz"] = iter(answers)
    result = run(bench.runner(), bench.step("a", apply_error=StepFailed("API went away")))
    assert isinstance(result, RunResult)
    assert result.outcome == "rolled-back"
    assert bench.diary == ["apply a", "undo a to 1"]


def test_stop_lets_the_current_step_finish(bench: Bench) -> None:
    """A stop asked for in the middle of a step takes effect after its gates, and undoes nothing."""

    def ask() -> None:
        bench.stop.requested = True

    result = run(bench.runner(), bench.step("a", ScriptedGate("g"), on_apply=ask), bench.step("b"))
    assert isinstance(result, RunResult)
    assert result.outcome == "interrupted"
    assert bench.diary == ["apply a"]
    assert [event.outcome for event in bench.recorder.events if isinstance(event, StepEnded)] == ["passed"]


def test_way_back_is_told_before_the_change(bench: Bench) -> None:
    """The event that holds a step's way back comes before the step changes anything."""
    seen: list[int] = []
    step = bench.step("a", on_apply=lambda: seen.append(len(bench.recorder.events)))
    run(bench.runner(), step)
    before = bench.recorder.events[: seen[0]]
    started = [event for event in before if isinstance(event, StepStarted)]
    assert [event.way_back and event.way_back.revision for event in started] == [1]


def test_step_with_nothing_to_take_back_is_not_undone(bench: Bench) -> None:
    """A step that changed nothing is left out of the way back."""
    unchanged = PipelineStep(VerifyStep("a"), (), ())
    result = run(bench.runner(), unchanged, bench.step("b", apply_error=StepFailed("bad")))
    assert result == RunResult("rolled-back", "bad")
    assert [event.step for event in bench.recorder.events if isinstance(event, UndoEnded)] == ["b"]
