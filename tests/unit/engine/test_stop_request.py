"""How a run is stopped: by an operator, once or twice, or by another process that has taken the lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.command import REPOSITORY
from tests.unit.engine.conftest import Bench, ScriptedGate, ScriptedStep, run
from upgrader.engine.execution.stop_request import StopRequest, stop_on_signals
from upgrader.errors import StepFailed
from upgrader.model.event import Note, UndoEnded


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_asks_and_the_second_stops(number: signal.Signals) -> None:
    """The first signal is a request, which is reported; the second ends the work at once."""
    stop = StopRequest()
    notes: list[str] = []
    before = signal.getsignal(number)
    with stop_on_signals(stop, notes.append):
        os.kill(os.getpid(), number)
        assert stop.requested and "after the current step" in notes[0]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


_STOPPED_IN_AN_IMPORT = """
import os, signal, sys
from upgrader.engine.execution.stop_request import StopRequest, stop_on_signals

with stop_on_signals(StopRequest(), print):
    os.kill(os.getpid(), signal.SIGTERM)
    try:
        exec("os.kill(os.getpid(), signal.SIGTERM)")  # as a dataclass is made
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_run_that_is_stopped_at_once_in_an_import_ends_with_its_exit_code(tmp_path: Path) -> None:
    """A command loads what it needs when it needs it, and a run may be stopped there: as `python -m upgrader`, too, it
    ends with 130, and not by a signal that was never sent to it.
    """
    (tmp_path / "stopped.py").write_text(_STOPPED_IN_AN_IMPORT)
    path = {**os.environ, "PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}
    module = [sys.executable, "-m", "stopped"]
    ended = subprocess.run(module, env=path, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_closed_terminal_never_stops_at_once(first: signal.Signals) -> None:
    """A shell sends SIGHUP to its jobs, and the system sends it as well: that is one closed terminal, not two requests.

    After it, SIGTERM still stops at once.
    """
    stop = StopRequest()
    with stop_on_signals(stop, lambda _: None):
        for number in (first, signal.SIGHUP, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_signal_in_the_middle_of_a_write_costs_no_more_than_words() -> None:
    """Python refuses a handler's write to a stream whose write it interrupted; the request counts all the same."""
    stop = StopRequest()

    def reentrant(_: str) -> None:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    with stop_on_signals(stop, reentrant):
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.requested


def test_stop_on_the_way_back_takes_effect_behind_the_undo_at_work(bench: Bench) -> None:
    """The step that failed is undone, the earlier ones stay as they are, and the run can be resumed."""

    def ask() -> None:
        bench.stop.requested = True

    bad = bench.step("b", apply_error=StepFailed("bad"), on_undo=ask)
    result = run(bench.runner(), bench.step("a"), bad)
    assert result.outcome == "interrupted" and "upgrader resume" in result.remedy
    assert bench.diary == ["apply a", "apply b", "undo b to 1"]


def test_stop_in_a_step_that_fails_undoes_that_step_first(bench: Bench) -> None:
    """A stop takes effect only where it is safe: not at a broken step."""

    def ask() -> None:
        bench.stop.requested = True

    bad = bench.step("b", on_apply=ask, apply_error=StepFailed("bad"))
    run(bench.runner(), bench.step("a"), bad)
    assert bench.diary == ["apply a", "apply b", "undo b to 1"]


def test_lost_lock_stops_before_anything_else_is_begun(bench: Bench) -> None:
    """The new holder of the lock decides: not even the step that failed is undone."""
    bad = bench.step("b", on_apply=lambda: bench.stop.forbid("the lock was taken over"), apply_error=StepFailed("bad"))
    result = run(bench.runner(), bench.step("a", ScriptedGate("g")), bad)
    assert (result.outcome, result.reason) == ("interrupted", "the lock was taken over")
    assert bench.diary == ["apply a", "apply b"]
    assert not [event for event in bench.recorder.events if isinstance(event, UndoEnded)]


@pytest.mark.parametrize("undone", [False, True], ids=["upgrade", "rollback"])
def test_why_helm_goes_on_is_in_the_journal(bench: Bench, *, undone: bool) -> None:
    """A run that was asked to stop while Helm works doesn't end it, and says so, once: an operator who finds that Helm
    a minute after SIGTERM sees in the journal that it is meant to be there.
    """
    seen = list[bool]()

    def while_helm_works(check: Callable[[], None]) -> None:
        check()
        seen.append(bool(told(bench)))
        bench.stop.requested = True
        check()
        check()

    def applying(check: Callable[[], None]) -> ScriptedStep:
        return ScriptedStep(
            "a", bench.diary, StepFailed("bad") if undone else None, on_apply=works_if(not undone, check)
        )

    def works_if(here: bool, check: Callable[[], None]) -> Callable[[], None]:
        return lambda: while_helm_works(check) if here else None

    def undoing(check: Callable[[], None]) -> ScriptedStep:
        return ScriptedStep("a", bench.diary, on_undo=works_if(undone, check))

    run(bench.runner(), replace(bench.step("a"), watched=applying, undo_watched=undoing), bench.step("b"))
    assert seen == [False]
    (text,) = told(bench)
    assert "an active Helm process continues" in text and "second signal stops the run immediately" in text
    assert bench.diary == (["apply a", "undo a to 1"] if undone else ["apply a"])


def told(bench: Bench) -> list[str]:
    """What was noted of a request to stop."""
    notes = (event.text for event in bench.recorder.events if isinstance(event, Note))
    return [text for text in notes if "will stop after this step" in text]
