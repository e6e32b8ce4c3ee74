"""How far a run got, and what comes next, for arbitrary journals and for those that runs write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upgrader.engine.execution.next_action import Begin, CheckGates, Complete, End, Undo, next_action
from upgrader.engine.state import event_fold
from upgrader.engine.state.run_state import RunState
from upgrader.model.event import (
    Event,
    GateChecked,
    Note,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepApplied,
    StepEnded,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import pending
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import OnFailure
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion(1, 37, 1)

st.register_type_strategy(float, st.floats(allow_nan=False))
st.register_type_strategy(KubernetesVersion, st.builds(KubernetesVersion, *[st.integers(0, 2000)] * 3))
NAMES = st.sampled_from(["a", "b", "c"])
POINT = RestorePoint("x", "kube-system", 1)
STEP_EVENTS = st.one_of(
    st.builds(StepStarted, NAMES, st.just(""), st.sampled_from([POINT, None])),
    st.builds(StepApplied, NAMES, st.just(1.0)),
    st.builds(StepEnded, NAMES, st.sampled_from(["passed", "failed"]), st.just(1.0), st.just("why")),
    st.builds(UndoStarted, NAMES, st.just("there")),
    st.builds(UndoEnded, NAMES, st.booleans(), st.just(1.0)),
)
ANY = st.one_of(STEP_EVENTS, *(st.from_type(kind) for kind in get_args(Event)))


def follow(state: RunState, event: Event) -> RunState:
    """The fold, at a time that doesn't matter."""
    return event_fold.follow(state, event, datetime(2026, 1, 1, tzinfo=UTC))


def state(*events: Event, on_failure: OnFailure = "rollback-run") -> RunState:
    """The state of a run of a, b and c after these events."""
    found = follow(
        RunState(),
        RunStarted("r", RunKind.UPGRADE, ("a", "b", "c"), "", TARGET, on_failure=on_failure),
    )
    for event in events:
        found = follow(found, event)
    return found


def passed(name: str) -> tuple[Event, ...]:
    """A step that worked."""
    return StepStarted(name, "", POINT), StepApplied(name, 1.0), StepEnded(name, "passed", 2.0)


@given(st.lists(ANY, max_size=15))
def test_any_journal_has_a_state_and_a_next_action(events: list[Event]) -> None:
    """Whatever the order of events, there is a state and a next action; what it names is a step of the run."""
    found = RunState()
    for event in events:
        found = follow(found, event)
        action = next_action(found)
        if not isinstance(action, End):
            assert action.step in (*found.planned, *(step.name for step in found.steps))


@given(st.lists(STEP_EVENTS, max_size=20), st.booleans())
def test_no_step_goes_back_to_an_earlier_phase(events: list[Event], asked: bool) -> None:
    """Once a step was undone or has passed, no event of a run makes it one that is still to be applied."""
    order = ["applying", "gating", "passed", "failed", "undoing", "undone", "undo-failed"]
    found = follow(state(), RollbackRequested("r", "me")) if asked else state()
    for event in events:
        later = follow(found, event)
        for before in found.steps:
            after = later.step(before.name)
            assert after is not None and order.index(after.phase) >= order.index(before.phase)
            assert after.restore_point == before.restore_point, "what was captured first is the restore point"
        found = later


@given(st.lists(st.booleans(), max_size=12), st.sampled_from(get_args(OnFailure)))
def test_every_run_ends(answers: list[bool], policy: OnFailure) -> None:
    """Executing the next action, with each step and undo working or not, comes to an end, and never repeats itself."""
    found, done = state(on_failure=policy), []
    for answer in [*answers, *[True] * 20]:
        action = next_action(found)
        assert action not in done, action
        done.append(action)
        match action:
            case Begin():
                ended = StepEnded(action.step, "passed" if answer else "failed", 1.0)
                events: list[Event] = [StepStarted(action.step, "", POINT), StepApplied(action.step, 1.0), ended]
            case Undo():
                events = [UndoStarted(action.step, ""), UndoEnded(action.step, answer, 1.0)]
            case _:
                break
        for event in events:
            found = follow(found, event)
    assert isinstance(action, End)
    assert (action.outcome == "succeeded") == all(step.phase == "passed" for step in found.steps)


def test_step_that_was_cut_off_is_looked_at_first() -> None:
    """An interrupted change is inspected first; a change that is in place lacks only its gates."""
    assert next_action(state(*passed("a"), StepStarted("b", "", POINT))) == Complete("b")
    assert next_action(state(*passed("a"), StepStarted("b", "", POINT), StepApplied("b", 1.0))) == CheckGates("b")


def test_interrupted_run_goes_on_where_it_was() -> None:
    """After a stop on request, the next step is the next."""
    found = state(*passed("a"), RunEnded("r", "interrupted", 3.0), RunResumed("r", "me"))
    assert (next_action(found), found.outcome) == (Begin("b"), None)


def test_resumed_step_starts_its_clock_again() -> None:
    """What a dead process last showed of a step, its age and a gate's countdown, is not shown of the new one."""
    check = GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 87.0)
    cut = state(StepStarted("a", "", POINT), StepApplied("a", 1.0), check, Note("helm upgrade"))
    later = datetime(2026, 1, 1, 14, tzinfo=UTC)
    step = event_fold.follow(cut, RunResumed("r", "me"), later).step("a")
    assert step is not None
    assert (step.since, step.check, step.note) == (later, None, "")


def test_rollback_keeps_the_step_that_was_named() -> None:
    """`--to a` undoes what came after a, newest first, and then ends."""
    done = (*passed("a"), *passed("b"), *passed("c"), RunEnded("r", "succeeded", 9.0))
    found = state(*done, RollbackRequested("r", "me", "a"))
    undone = []
    while isinstance(action := next_action(found), Undo):
        undone.append(action.step)
        found = follow(follow(found, UndoStarted(action.step, "")), UndoEnded(action.step, True, 1.0))
    assert undone == ["c", "b"]
    assert action == End("rolled-back")
    assert next_action(follow(found, RollbackRequested("r", "me"))) == Undo("a", interrupted=False, safe_to_stop=True)


@pytest.mark.parametrize("event", [RunResumed("r", "me"), RollbackRequested("r", "me")])
def test_undo_that_failed_is_tried_again_by_whoever_goes_on(event: Event) -> None:
    """An operator may have fixed what blocked it."""
    failed = (*passed("a"), StepStarted("b", "", POINT), StepEnded("b", "failed", 1.0, "bad flag"))
    back = (
        UndoStarted("b", ""),
        UndoEnded("b", False, 1.0, "API away"),
        UndoStarted("a", ""),
        UndoEnded("a", True, 1.0),
    )
    found = state(*failed, *back)
    assert isinstance(next_action(found), End)
    found = follow(follow(found, RunEnded("r", "failed", 9.0)), event)
    assert next_action(found) == Undo("b", interrupted=False, safe_to_stop=False)


def test_stopped_at_a_failure_the_step_is_tried_again() -> None:
    """With `onFailure: stop`, resuming means to inspect the step that failed, and to complete it."""
    failed = (*passed("a"), StepStarted("b", "", POINT), StepEnded("b", "failed", 1.0, "bad flag"))
    found = state(*failed, RunEnded("r", "failed", 9.0, "bad flag"), RunResumed("r", "me"), on_failure="stop")
    assert next_action(found) == Complete("b")


def test_step_that_failed_before_it_was_begun_is_begun_anew() -> None:
    """Its restore point was not recorded, so it has to be captured."""
    failed = (*passed("a"), StepEnded("b", "failed", 1.0, "no way back"), RunEnded("r", "failed", 9.0))
    found = state(*failed, RunResumed("r", "me"), on_failure="stop")
    assert next_action(found) == Begin("b")
