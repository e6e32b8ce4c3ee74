"""Waits of tests: a busy machine stretches their deadlines, and what was waited for is told."""

from __future__ import annotations

import logging

import pytest

from testkit import waiting
from testkit.waiting import LOGGER, Patience, until
from upgrader.errors import ApiError


class _Machine:
    """A clock, and how slow the machine is."""

    def __init__(self) -> None:
        self.now, self.slowness = 100.0, 1.0

    def patience(self, seconds: float) -> Patience:
        return Patience(seconds, now=lambda: self.now, slowness=lambda: self.slowness)


def test_patience_of_a_quiet_machine_is_its_seconds() -> None:
    """Where nothing else runs, a deadline is what it says."""
    machine = _Machine()
    patience = machine.patience(10)
    machine.now += 9
    assert patience.left()
    machine.now += 1
    assert not patience.left()


def test_patience_lasts_longer_while_the_machine_is_busy() -> None:
    """Seconds with three times the load count a third, those before and after it in full."""
    machine = _Machine()
    patience = machine.patience(10)
    machine.now += 4
    assert patience.left()
    machine.slowness = 3
    machine.now += 15
    assert patience.left(), "5 of 10 are used up"
    machine.slowness = 1
    machine.now += 1
    assert not patience.left()


@pytest.mark.parametrize(("load", "slowness"), [(0.3, 1.0), (2.0, 1.0), (5.0, 2.5), (90.0, 6.0)])
def test_slowness_is_the_load_of_each_processor(load: float, slowness: float) -> None:
    """Never less than one, and no more than what a test is meant for."""
    assert waiting._slowness(load, 2) == slowness


def test_until_asks_once_more_after_its_deadline() -> None:
    """A process that didn't run until the deadline was over has not waited yet."""
    answers = iter([False, True])
    until("it", lambda: next(answers), timeout_seconds=0, interval_seconds=0)


def test_until_says_what_it_waited_for_and_why_it_is_not_so() -> None:
    """The error names it, with the last thing that the API said."""

    def unreachable() -> bool:
        raise ApiError("connection refused")

    with pytest.raises(TimeoutError, match=r"for the moon: connection refused"):
        until("the moon", unreachable, timeout_seconds=0, interval_seconds=0)


def test_each_wait_is_told() -> None:
    """By name and seconds, also where it fails."""
    told: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = told.append  # type: ignore[method-assign, assignment]
    before = LOGGER.level
    LOGGER.setLevel(logging.DEBUG)
    LOGGER.addHandler(handler)
    try:
        with pytest.raises(TimeoutError):
            until("the moon", lambda: False, timeout_seconds=0, interval_seconds=0)
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
    assert [(record.__dict__["waited_for"], record.__dict__["seconds"] >= 0) for record in told] == [
        ("until the moon", True)
    ]
