"""What this machine's system refuses a step is a failure of that step: it goes back, and nothing is left in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engine.conftest import Bench, ScriptedGate, run
from upgrader.engine.journal.journal_file import Journal, each_record
from upgrader.engine.state.event_fold import fold
from upgrader.errors import ApiUnavailable, ChangedMeanwhile, Interrupted, JournalError, StepFailed
from upgrader.model.event import RecoveryEnded, StepEnded, StepStarted, UndoEnded
from upgrader.model.outcome import Verdict
from upgrader.model.release import RestorePoint

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/upgrader-ansible-1")


def refused(error: OSError = FULL) -> Callable[[], None]:
    """Does what the system refuses."""

    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "said", "remedy"),
    [
        (FULL, "/tmp/upgrader-ansible-1 can't be used: No space left", "df -h /tmp/upgrader-ansible-1"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/r/x"), "/r/x can't be used", "Correct the path"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/tmp/gone"), "/tmp/gone", "TMPDIR"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "Broken pipe", "report it"),
    ],
    ids=["full", "too-long", "gone", "pipe"],
)
def test_step_that_the_system_refuses_goes_back(bench: Bench, error: OSError, said: str, remedy: str) -> None:
    """With the steps before it, as after any other failure; the reason names the file, and the remedy what to do."""
    result = run(bench.runner(), bench.step("a"), bench.step("b", on_apply=refused(error)))
    assert bench.diary == ["apply a", "apply b", "undo b to 1", "undo a to 1"]
    assert result.outcome == "rolled-back"
    assert said in result.reason and remedy in result.remedy


def test_gate_that_the_system_refuses_has_failed(bench: Bench) -> None:
    """A check that can't open its file proves nothing: the step is undone."""

    class Refused(ScriptedGate):
        def check(self) -> Verdict:
            raise FULL

    result = run(bench.runner(), bench.step("a", Refused("g")))
    assert (result.outcome, bench.diary) == ("rolled-back", ["apply a", "undo a to 1"])


def test_step_that_is_refused_before_it_began_is_not_undone(bench: Bench) -> None:
    """Without a restore point on disk it has changed nothing: only the steps before it go back."""
    refusing = bench.step("b")

    class Refused:
        name = "b"
        summary, apply, undo = refusing.step.summary, refusing.step.apply, refusing.step.undo

        def capture(self) -> RestorePoint:
            raise FULL

    result = run(bench.runner(), bench.step("a"), replace(refusing, step=Refused()))
    assert (result.outcome, bench.diary) == ("rolled-back", ["apply a", "undo a to 1"])
    assert [each.step for each in bench.recorder.events if isinstance(each, StepStarted)] == ["a"]


def test_undo_that_the_system_refuses_has_failed(bench: Bench) -> None:
    """That is recorded, so that `resume` repeats it once there is room; steps before it stay."""
    step = bench.step("b", apply_error=StepFailed("bad flag"), on_undo=refused())
    result = run(bench.runner(), bench.step("a"), step)
    assert (result.outcome, bench.diary[2:]) == ("failed", ["undo b to 1"])
    assert "bad flag" in result.reason and "No space left" in result.reason and "df -h" in result.remedy
    ended = [each for each in bench.recorder.events if isinstance(each, UndoEnded)]
    assert [(each.step, each.succeeded) for each in ended] == [("b", False)]


def test_api_is_recovered_also_where_the_system_refuses_an_undo(bench: Bench) -> None:
    """The API that a step has made unreachable comes back, whatever this machine lacks for the rest."""

    def lose() -> None:
        bench.kube.unavailable = True

    refusals = iter([FULL])

    def undo() -> None:
        bench.kube.unavailable = bench.recovery.calls == 0
        for error in refusals:
            raise error

    step = replace(bench.step("a", on_apply=lose, apply_error=ApiUnavailable("gone"), on_undo=undo))
    result = run(bench.runner(), replace(step, undo_needs_api=False))
    assert (result.outcome, bench.recovery.calls) == ("rolled-back", 1)
    assert bench.diary == ["apply a", "undo a to 1", "undo a to 1"]


def test_recovery_that_the_system_refuses_has_failed(bench: Bench) -> None:
    """It ends in the journal, with what to free."""

    def lose() -> None:
        bench.kube.unavailable = True

    bench.recovery.error = FULL
    result = run(bench.runner(), bench.step("a", on_apply=lose, apply_error=StepFailed("cluster unreachable")))
    assert result.outcome == "failed" and "df -h /tmp/upgrader-ansible-1" in result.remedy
    assert [each.succeeded for each in bench.recorder.events if isinstance(each, RecoveryEnded)] == [False]


@pytest.mark.parametrize(
    ("first", "where"),
    [
        (KeyboardInterrupt(), "apply"),
        (KeyboardInterrupt(), "undo"),
        (Interrupted("another process has the lock"), "apply"),
        (Interrupted("another process has the lock"), "undo"),
        (ChangedMeanwhile("it is another's by now"), "apply"),
    ],
    ids=["at-once", "at-once-in-undo", "lock", "lock-in-undo", "changed"],
)
def test_what_ends_a_run_ends_it_also_where_its_cleanup_is_refused(
    bench: Bench, first: BaseException, where: str
) -> None:
    """A second Ctrl-C, a lost lock, another's change: a folder that can't be removed after it is no step's failure."""

    def work() -> None:
        try:
            raise first
        finally:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), "/tmp/upgrader-ansible-1")

    script = {"on_apply": work} if where == "apply" else {"apply_error": StepFailed("bad flag"), "on_undo": work}
    outcome = ""
    with suppress(KeyboardInterrupt, ChangedMeanwhile):
        outcome = run(bench.runner(), bench.step("a"), bench.step("b", **script)).outcome
    assert outcome == ("interrupted" if isinstance(first, Interrupted) else "")
    assert bench.diary == ["apply a", "apply b", "undo b to 1"][: 3 if where == "undo" else 2]
    ended = [each.step for each in bench.recorder.events if isinstance(each, StepEnded | UndoEnded)]
    assert ended == ["a", "b"][: 2 if where == "undo" else 1], "it has no result, for `resume` to see what it did"


def test_without_a_journal_nothing_is_undone(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the same disk has the journal, the run ends as it is, says what to free, and is in doubt for `resume`."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, bench.clock)
    bench.recorder.emit = journal.emit  # type: ignore[method-assign]

    def full() -> None:
        def no_room(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", no_room)
        raise FULL

    with pytest.raises(JournalError, match=r"journal.jsonl can't be written: No space left") as caught:
        run(bench.runner(), bench.step("a"), bench.step("b", on_apply=full))
    monkeypatch.undo()
    assert bench.diary == ["apply a", "apply b"]
    assert "Free disk space" in caught.value.remedy and "upgrader resume" in caught.value.remedy
    state = fold(tuple(each_record(path)))
    assert [(step.name, step.phase) for step in state.steps] == [("a", "passed"), ("b", "applying")]


def test_failure_is_recorded_once(bench: Bench) -> None:
    """The step ends as failed, and never as passed."""
    run(bench.runner(), bench.step("a", on_apply=refused()))
    assert [each.outcome for each in bench.recorder.events if isinstance(each, StepEnded)] == ["failed"]
