"""Out of the load balancer and back: each step once, and none before its answer and its time."""

from __future__ import annotations

import pytest

from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT, Detachment, DetachStep, attach, detach
from upgrader.contract.times import timestamp

HOW = Detachment(grace=10, answered_grace=30)
ALONE = Detachment(grace=10, answer="", attached="")


def test_the_node_is_annotated_and_old_answers_taken_off() -> None:
    """An answer to the last time isn't one to this."""
    assert detach({}, HOW, 0, None, 0).patch == {DETACHMENT: "true"}
    old = {DETACHED: timestamp(1), ATTACHED: timestamp(2), "other": "x"}
    assert detach(old, HOW, 0, None, 1e9).patch == {DETACHMENT: "true", DETACHED: None, ATTACHED: None}


def test_nothing_is_done_before_the_answer() -> None:
    """However long it takes."""
    step = detach({DETACHMENT: "true"}, HOW, 0, None, 1e9)
    assert not step.done and not step.patch and DETACHED in step.waits_for


@pytest.mark.parametrize("text", ["", "yes", "1700000000", "2026-13-01T00:00:00Z"])
def test_an_answer_that_cannot_be_read_is_waited_for_and_shown(text: str) -> None:
    """It says what stands there; so it is for the way back."""
    step = detach({DETACHMENT: "", DETACHED: text}, HOW, 0, 0.0, 1e9)
    assert not step.done and repr(text) in step.waits_for
    back = attach({ATTACHED: text}, HOW)
    assert not back.done and repr(text) in back.waits_for


@pytest.mark.parametrize(
    ("asked_at", "answered", "noticed", "now", "left"),
    [
        (0, 100, 100.0, 129, 1.0),
        (0, 100, 100.0, 130, None),
        (0, 100, 105.0, 130, 5.0),  # seen later: counted from then
        (0, 100, None, 130, 30.0),  # seen just now
        (0, 110, 100.0, 130, 10.0),  # by a clock that is ahead
        (125, 90, 90.0, 130, 5.0),  # asked again since: the grace after asking
    ],
)
def test_the_grace_period_counts_from_the_latest(
    asked_at: float, answered: float, noticed: float | None, now: float, left: float | None
) -> None:
    """From asking, from the answer, and not from before it was seen."""
    step = detach({DETACHMENT: "true", DETACHED: timestamp(answered)}, HOW, asked_at, noticed, now)
    assert (step.done, step.again_in) == (left is None, left)


def test_without_an_agent_that_answers_the_grace_period_must_do() -> None:
    """Out after 10 s, back at once."""
    assert detach({DETACHMENT: "true"}, ALONE, 0, None, 9).again_in == 1
    assert detach({DETACHMENT: "true"}, ALONE, 0, None, 10).done
    assert attach({DETACHMENT: "true"}, ALONE).patch == {DETACHMENT: None}
    assert attach({}, ALONE) == DetachStep(done=True)


def test_the_way_back_ends_with_the_agents_answer() -> None:
    """Take it off with the last answer; wait for the new one; then it is done."""
    first = attach({DETACHMENT: "true", DETACHED: timestamp(1), ATTACHED: timestamp(0)}, HOW)
    assert first.patch == {DETACHMENT: None, ATTACHED: None} and not first.done
    waiting = attach({DETACHED: timestamp(1)}, HOW)
    assert not waiting.done and not waiting.patch and ATTACHED in waiting.waits_for
    assert attach({DETACHED: timestamp(1), ATTACHED: timestamp(2)}, HOW).done


def test_nobody_waits_for_the_way_back_of_a_node_that_was_never_out() -> None:
    """Taken back before the agent has said anything."""
    assert attach({}, HOW).done
