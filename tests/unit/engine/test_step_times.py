"""How long a step took before: what a plan says of its time."""

from __future__ import annotations

from upgrader.engine.history.step_times import usual_seconds
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.outcome import StepPhase
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind

POINT = RestorePoint("a", "kube-system", 1)


def step(seconds: float, phase: StepPhase = "passed", reason: str = "") -> StepState:
    """A step of that duration, which had something to change."""
    return StepState("a", phase, restore_point=POINT, seconds=seconds, reason=reason)


def test_median_of_what_passed() -> None:
    """One slow run doesn't move it; a step that was rolled back after it had passed took its time all the same."""
    steps = (step(40.0), step(50.0, "undone"), step(900.0))
    runs = [RunState("r", steps=(each,)) for each in steps]
    assert usual_seconds(runs) == {"a": 50.0}


def test_what_a_preparation_took() -> None:
    """A backup changes nothing, and so has no restore point: its time counts all the same, where it passed."""
    runs = [
        RunState("r", steps=(StepState("backup", "passed", prepares=True, seconds=30.0),)),
        RunState("r", steps=(StepState("backup", "failed", prepares=True, seconds=2.0, reason="no room"),)),
    ]
    assert usual_seconds(runs) == {"backup": 30.0}


def test_what_says_nothing_of_a_steps_time() -> None:
    """A failed, an unfinished and an unchanged step, and another kind of run; a step without any is not in it."""
    runs = [
        RunState("r", steps=(step(3.0, "failed", "a pod crashed"),)),
        RunState("r", steps=(step(0.0, "gating"),)),
        RunState("r", steps=(StepState("a", "passed", seconds=2.0),)),
        RunState("r", RunKind.ADOPT, steps=(step(9.0),)),
    ]
    assert usual_seconds(runs) == {}
