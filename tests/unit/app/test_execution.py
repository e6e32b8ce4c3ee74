"""What is left of a run that raised an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from upgrader.app import execution
from upgrader.app.execution import execute_run
from upgrader.app.front_end import FrontEnd
from upgrader.engine.execution.runner import RunResult
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import JournalError
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline
from upgrader.report import formats


def session(folder: Path) -> Any:
    """No more than a run's folder needs."""
    settings = SimpleNamespace(folder=folder, keep_runs=5, on_failure="stop")
    return SimpleNamespace(settings=settings, tools=SimpleNamespace(clock=FakeClock()))


@pytest.mark.parametrize("full", [False, True], ids=["room for a report", "disk full"])
def test_what_ended_the_run_is_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    """A journal that couldn't be written ends the run, and `resume` is the remedy, even if the report fails too."""

    def broken_off(*_: object) -> None:
        raise JournalError("the journal can't be written", remedy="Free disk space: `upgrader resume` continues.")

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(execution, "_run", broken_off)
    if full:
        monkeypatch.setattr(formats, "write_atomic", no_room)
    with pytest.raises(JournalError, match="the journal can't be written") as caught:
        execute_run(session(tmp_path), FrontEnd(), Pipeline(()), kind=RunKind.UPGRADE, held=None)
    assert "upgrader resume" in caught.value.remedy
    reports = [json.loads(path.read_text())["outcome"] for path in tmp_path.glob("runs/*/report.json")]
    assert reports == ([] if full else ["interrupted"])


def test_run_that_changed_nothing_says_so() -> None:
    """Nobody has to look at a cluster that is as it was; it ends as a run that was rolled back does."""
    images = StepState("images", "failed", prepares=True)
    state = RunState("r1", steps=(images,), failure=images)
    result = RunResult("rolled-back", "no such image", "fix its name")
    error, after_a_change = execution._error(result, state), execution._error(result, replace(state, steps=(CHANGED,)))
    assert error is not None and after_a_change is not None
    assert "before it changed anything" in error.message and "no such image" in error.message
    assert (error.exit_code, error.remedy) == (4, "fix its name")
    assert "and was rolled back" in after_a_change.message


CHANGED = StepState("kube-apiserver", "undone")
