"""When each part of a run began and ended, folded from its events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from testkit.example_runs import state_of
from upgrader.engine.state.timeline import Span
from upgrader.model.event import (
    Event,
    GateChecked,
    GatePassed,
    LockTakenOver,
    RecoveryEnded,
    RecoveryStarted,
    RollbackRequested,
    RunEnded,
    RunResumed,
    StepApplied,
    StepEnded,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import holds, pending

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def spans(*story: tuple[float, Event]) -> list[tuple[str, float, float | None, str]]:
    """Kind (or the gate's name), beginning, end, outcome of each span."""

    def seconds(time: datetime) -> float:
        return (time - BEGAN).total_seconds()

    def told(span: Span) -> tuple[str, float, float | None, str]:
        return span.gate or span.kind, seconds(span.began), seconds(span.ended) if span.ended else None, span.outcome

    return [told(span) for span in state_of(story).spans]


def test_change_and_gates_of_a_step() -> None:
    """Each gate from its first answer to the last one that it needed."""
    assert spans(
        (1, StepStarted("a", "", None)),
        (4, StepApplied("a", 3.0)),
        (5, GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 9.0)),
        (6, GateChecked("a", "nodes", holds("2 of 2"), 1, 3, 8.0)),
        (8, GatePassed("a", "nodes", 4.0, 4)),
        (9, StepEnded("a", "passed", 8.0)),
    ) == [("apply", 1, 4, "applied"), ("gates", 4, 9, "passed"), ("nodes", 5, 8, "passed")]


def test_gate_that_held_at_once() -> None:
    """Its answers were no news, so only its end is in the journal: it took as long as it says."""
    assert spans((1, StepStarted("a", "", None)), (9, GatePassed("a", "nodes", 3.0, 3)))[1] == ("nodes", 6, 9, "passed")


def test_gate_that_stopped_holding() -> None:
    """It is waited for once more, in a span of its own; the second one is open at the end of the journal."""
    assert spans(
        (1, StepStarted("a", "", None)),
        (3, GatePassed("a", "nodes", 2.0, 3)),
        (5, GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 9.0)),
    )[1:] == [("nodes", 1, 3, "passed"), ("nodes", 5, None, "pending")]


def test_rollback_has_gates_of_its_own() -> None:
    """A gate of the same name is another span after the undo began."""
    assert spans(
        (1, StepStarted("a", "", None)),
        (2, StepApplied("a", 1.0)),
        (3, GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 9.0)),
        (6, StepEnded("a", "failed", 5.0, "no")),
        (6, UndoStarted("a", "revision 1")),
        (7, GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 9.0)),
        (9, UndoEnded("a", False, 3.0)),
    )[1:] == [
        ("gates", 2, 6, "failed"),
        ("nodes", 3, 6, "pending"),
        ("undo", 6, 9, "undo-failed"),
        ("nodes", 7, 9, "pending"),
    ]


def test_what_was_cut_off_ends_with_the_last_record_of_its_process() -> None:
    """Not when another machine goes on, on the next day: nothing is known of the time between."""
    other = RunResumed("r", "anna")
    for first in ([(500.0, LockTakenOver("bob", "", "", "it is gone"))], []):
        found = spans((1, StepStarted("a", "", None)), *first, (501, other), (502, StepInspected("a", True, "done")))
        assert found == [("apply", 1, 1, "interrupted"), ("gates", 502, None, "")]
    assert spans((1, StepStarted("a", "", None)), (9, RollbackRequested("r", "anna")))[0][2] == 1
    assert spans((1, StepStarted("a", "", None)), (9, RunEnded("r", "interrupted", 8.0)))[0][2] == 9


def test_step_that_failed_before_it_began() -> None:
    """It has taken time, which is shown."""
    assert spans((9, StepEnded("a", "failed", 4.0, "no revision"))) == [("apply", 5, 9, "failed")]
    assert spans((9, StepEnded("a", "failed", float("inf"), "no"))) == [("apply", 9, 9, "failed")]


def test_step_that_was_not_in_place_is_applied_again() -> None:
    """After an inspection that found nothing, the change is made: a second span of it."""
    found = spans((1, StepStarted("a", "", None)), (5, RunResumed("r", "b")), (6, StepInspected("a", False, "nothing")))
    assert found[1] == ("apply", 6, None, "")


def test_recovery_of_the_api() -> None:
    """It belongs to no step, and ends as it did."""
    for succeeded, outcome in ((True, "succeeded"), (False, "failed")):
        found = spans((1, RecoveryStarted("refused")), (5, RecoveryEnded(succeeded, 4.0)))
        assert found == [("recovery", 1, 5, outcome)]


def test_clock_that_went_backwards() -> None:
    """Times are kept as the journal has them; drawing them is another matter."""
    assert state_of([(5, StepStarted("a", "", None)), (3, StepApplied("a", 1.0))]).spans[0].ended == BEGAN + timedelta(
        seconds=3
    )
