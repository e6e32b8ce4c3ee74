"""Plain lines for logs."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from rich.console import Console

from testkit.fakes.clock import FakeClock
from tests.unit.cli.ui.conftest import APPLIED, looked
from upgrader.cli.ui.approval_question import ApprovalQuestion
from upgrader.cli.ui.live_display import ConsoleReporter
from upgrader.cli.ui.plain_log import PlainReporter
from upgrader.cli.ui.repeats import REPEAT_SECONDS
from upgrader.cli.ui.reporters import choose_reporter
from upgrader.model.event import (
    ApprovalRequested,
    AvailabilityMeasured,
    Event,
    GatePassed,
    Note,
    RecoveryEnded,
    RecoveryStarted,
    RunEnded,
    StepApproved,
    StepEnded,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import holds, pending


class Log:
    """A PlainReporter with a clock, and what it wrote."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.out = io.StringIO()
        self.reporter = PlainReporter(self.out, self.clock.now, self.clock.monotonic)

    def after(self, *events: Event) -> list[str]:
        """The lines that these events add."""
        self.out.seek(0)
        self.out.truncate()
        for event in events:
            self.reporter.emit(event)
        return self.out.getvalue().splitlines()


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()


def test_a_line_for_each_event_with_its_time(log: Log) -> None:
    """A whole run reads from top to bottom, each line with the time and the step."""
    log.clock.sleep(timedelta(hours=1).total_seconds())
    lines = log.after(
        *APPLIED,
        GatePassed("kube-apiserver", "deployment/kube-apiserver", 3.0, 3),
        StepEnded("kube-apiserver", "failed", 34.0, "unknown flag: --nope\nlog line"),
        UndoStarted("kube-apiserver", "revision 3"),
        RecoveryStarted("connection refused"),
        RecoveryEnded(True, 12.0),
        UndoEnded("kube-apiserver", True, 11.0),
        RunEnded("x", "rolled-back", 75.0),
    )
    assert lines == [
        "01:00:00Z  run 20260101T000000-v1.37.1: upgrade to v1.37.1: kube-apiserver, kubernetes",
        "01:00:00Z  kube-apiserver: started: v1.36.3 → v1.37.1",
        "01:00:00Z  kube-apiserver: applied in 12 s",
        "01:00:00Z  kube-apiserver: gate deployment/kube-apiserver: passed in 3.0 s",
        "01:00:00Z  kube-apiserver: failed after 34 s: unknown flag: --nope",
        "           log line",
        "01:00:00Z  kube-apiserver: rolling back to revision 3",
        "01:00:00Z  API: unreachable for too long, recovering it over SSH: connection refused",
        "01:00:00Z  API: answers again after 12 s",
        "01:00:00Z  kube-apiserver: rolled back after 11 s",
        "01:00:00Z  run x: rolled-back after 1 min 15 s",
    ]


def test_an_approval_says_how_it_is_given(log: Log) -> None:
    """Whoever reads the log of a run that waits knows what to do, and later who did it and why."""
    assert log.after(ApprovalRequested("b", 3600.0), StepApproved("b", "ann@desk", "all is green")) == [
        "00:00:00Z  b: waiting for `upgrader approve b --reason WHY` [1 h 00 min left]",
        "00:00:00Z  b: approved by ann@desk: all is green",
    ]


def test_command_of_an_approval_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the cluster's folder, on each display of a run."""
    program, asked = "upgrader -C '/srv/north 1'", ApprovalRequested("b", 3600.0)
    log, screen = io.StringIO(), io.StringIO()
    PlainReporter(log, program=program).emit(asked)
    question = ApprovalQuestion(io.StringIO(), lambda _: None, "ann@desk")
    monkeypatch.setattr(question, "ask", lambda _: None)  # there is no terminal
    ConsoleReporter(Console(file=screen, width=120), question=question, program=program).emit(asked)
    assert f"`{program} approve b --reason WHY`" in log.getvalue()
    assert f"{program} approve b --reason TEXT" in " ".join(screen.getvalue().split())


def test_a_gate_is_not_repeated_until_it_is_time(log: Log) -> None:
    """The same reason is written again only after ten seconds; another reason or verdict at once."""
    assert len(log.after(looked(pending("0 of 1")))) == 1
    log.clock.sleep(1)
    assert log.after(looked(pending("0 of 1"))) == []
    assert len(log.after(looked(pending("1 of 1, not ready")))) == 1
    assert len(log.after(looked(holds("1 of 1, not ready"), 1))) == 1
    assert log.after(looked(holds("1 of 1, not ready"), 2)) == []
    log.clock.sleep(REPEAT_SECONDS)
    assert len(log.after(looked(holds("1 of 1, not ready"), 2))) == 1


def test_counts_are_said_at_intervals_and_when_something_fails(log: Log) -> None:
    """Growing counts are not written again for ten seconds; a failed request is written at once."""
    assert len(log.after(AvailabilityMeasured(10, 0, 0, 100.0))) == 1
    assert log.after(AvailabilityMeasured(20, 0, 0, 100.0)) == []
    assert log.after(AvailabilityMeasured(30, 1, 1, 2500.0)) == [
        "00:00:00Z  API: 30 requests, 1 failed (1 at the first try), longest gap 2.5 s"
    ]


def test_a_note_is_not_repeated(log: Log) -> None:
    """The same note twice in a row is one line."""
    assert len(log.after(Note("waiting"), Note("waiting"), Note("continuing"))) == 2


def test_time_that_is_expected(log: Log) -> None:
    """One line says how long it will probably take."""
    log.reporter.expect(125.0)
    assert log.out.getvalue() == "00:00:00Z  about 2 min 05 s, based on earlier runs\n"


def test_no_terminal_means_plain_lines() -> None:
    """A pipe, a file or a CI log never gets a display that redraws itself."""
    with choose_reporter(io.StringIO()) as reporter:
        assert isinstance(reporter, PlainReporter)
