"""The live display."""

from __future__ import annotations

import io
import threading
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from rich.text import Text

from testkit.waiting import stretched
from tests.unit.cli.ui.conftest import APPLIED, BEGIN, looked, text
from upgrader.cli.ui.live_display import ConsoleReporter, draw
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.model.event import (
    AvailabilityMeasured,
    Event,
    GatePassed,
    Note,
    RecoveryEnded,
    RecoveryStarted,
    RunEnded,
    StepEnded,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import broken, holds, pending

START = datetime(2026, 1, 1, tzinfo=UTC)


def state(*events: Event) -> RunState:
    """A run after these events, one second apart."""
    found = RunState()
    for second, event in enumerate(events):
        found = follow(found, event, START + timedelta(seconds=second))
    return found


def picture(*events: Event, now: float = 30.0, width: int = 80) -> str:
    """What is shown after these events, so many seconds after the first."""
    return text(draw(state(*events), START + timedelta(seconds=now), Text("*")), width=width)


def test_the_step_at_work_and_those_to_come() -> None:
    """The running step shows what it changes and for how long, the next ones wait, the head has the total time."""
    lines = picture(*BEGIN).splitlines()
    assert lines[1].startswith(" Upgrade to v1.37.1  20260101T000000-v1.37.1")
    assert lines[1].endswith("30 s")
    assert "* kube-apiserver" in lines[3] and "v1.36.3 → v1.37.1" in lines[3] and lines[3].endswith("29 s")
    assert lines[4].split() == ["·", "kubernetes"]


def test_the_gate_that_is_waited_for_says_why() -> None:
    """Name, successful checks, time left, verdict and its reason are all shown."""
    shown = picture(*APPLIED, looked(pending("0 of 1 pods are updated"), 0))
    assert "deployment/kube-apiserver  ○○○  1 min 35 s left" in shown
    assert "pending  0 of 1 pods are updated" in shown
    assert "●●○" in picture(*APPLIED, looked(holds("ok"), 2))


def test_a_passed_gate_makes_room() -> None:
    """A gate that has passed is no longer waited for."""
    shown = picture(*APPLIED, looked(holds("ok"), 3), GatePassed("kube-apiserver", "deployment/kube-apiserver", 3.0, 3))
    assert "deployment/kube-apiserver" not in shown


def test_a_failure_shows_its_first_line_and_the_way_back() -> None:
    """The failed step shows why; while it is undone it shows what is restored, and afterwards that it was."""
    failed = (*APPLIED, looked(broken("no")), StepEnded("kube-apiserver", "failed", 34.0, "unknown flag: --nope\nlog"))
    assert "unknown flag: --nope" in picture(*failed)
    assert "log" not in picture(*failed)
    assert "back to revision 3" in picture(*failed, UndoStarted("kube-apiserver", "revision 3"))
    undone = picture(*failed, UndoStarted("kube-apiserver", "revision 3"), UndoEnded("kube-apiserver", True, 11.0))
    assert "↶ kube-apiserver" in undone and "rolled back" in undone


def test_a_recovery_is_shown_with_the_step_that_waits_for_it() -> None:
    """While the API is recovered, the step that is undone shows that it waits for that."""
    away = (*APPLIED, UndoStarted("kube-apiserver", "revision 3"), RecoveryStarted("connection refused"))
    assert "recovering the API over SSH" in picture(*away)
    assert "the API answers again" in picture(*away, RecoveryEnded(True, 12.0))
    assert "etcd has lost its data" in picture(*away, RecoveryEnded(False, 12.0, "etcd has lost its data"))


def test_an_undo_that_failed_stands_out() -> None:
    """A step that could not be rolled back shows so, with the reason."""
    shown = picture(
        *APPLIED,
        UndoStarted("kube-apiserver", "revision 3"),
        UndoEnded("kube-apiserver", False, 1.0, "the API is away"),
        RunEnded("x", "failed", 3.0),
    )
    assert "could not be rolled back" in shown and "the API is away" in shown


def test_the_counts_of_the_probe_are_shown() -> None:
    """What clients of the API see is shown while the run continues."""
    assert "API  1,234 requests · 0 failed (2 at the first try) · longest gap 140 ms" in picture(
        *BEGIN, AvailabilityMeasured(1234, 0, 2, 140.2)
    )


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("height", [12, 24])
def test_long_reasons_take_what_room_there_is(height: int, width: int) -> None:
    """Two lines on a small screen, all of it on one of 80×24; it never pushes the steps off the screen."""
    reason = (
        "container kube-apiserver of pod kube-apiserver-7c9d: Failed to pull image: " + "registry answers 429 " * 12
    )
    run = state(*APPLIED, looked(pending(f"{reason} the end")), AvailabilityMeasured(1234, 0, 2, 140.2))
    shown = text(draw(run, START, Text("*")), width=width, height=height).splitlines()
    assert max(map(len, shown)) <= width and len(shown) <= height
    whole = "the end" in " ".join(" ".join(shown).split())
    assert whole == (height == 24) and ("…" in "".join(shown)) == (height == 12)


def test_time_that_is_expected() -> None:
    """Beside the time so far, at 80 columns, until the run goes back: then it says nothing."""
    run = state(*BEGIN)
    head = text(draw(run, START + timedelta(seconds=30), Text("*"), 125.0)).splitlines()[1]
    assert "20260101T000000-v1.37.1" in head and head.endswith("30 s of about 2 min 05 s") and len(head) <= 80
    back = state(*APPLIED, StepEnded("kube-apiserver", "failed", 1.0, "no"))
    assert "about" not in text(draw(back, START, Text("*"), 125.0))


def test_a_note_is_shown_with_the_step_and_kept_above() -> None:
    """Notes are printed above the display, each once however often it is repeated."""
    out = io.StringIO()
    with ConsoleReporter(Console(file=out, width=80), monotonic=lambda: 0.0) as reporter:
        for event in (*BEGIN, Note("helm upgrade"), Note("helm upgrade"), Note("helm rollback")):
            reporter.emit(event)
    assert out.getvalue().count("helm upgrade") == 1
    assert "helm rollback" in out.getvalue()
    assert "helm upgrade" in picture(*BEGIN, Note("helm upgrade"))


def test_signal_in_the_middle_of_an_event_is_told() -> None:
    """A signal handler runs wherever the main thread is, and its message must not wait for what it interrupted."""
    armed = threading.Event()

    def interrupted() -> float:
        if armed.is_set():
            armed.clear()
            display.emit(Note("Stopping after the current step"))
        return 0.0

    out = io.StringIO()
    display = ConsoleReporter(Console(file=out, width=80), interrupted)
    armed.set()
    thread = threading.Thread(target=display.emit, args=(BEGIN[0],), daemon=True)
    thread.start()
    thread.join(stretched(10))
    assert not thread.is_alive() and "Stopping after the current step" in out.getvalue()
