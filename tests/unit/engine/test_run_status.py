"""The status of the newest run, from its journal and the folder's lock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from testkit.fakes.clock import FakeClock
from upgrader.engine.history.past_runs import PastRun, newest_run
from upgrader.engine.history.run_status import status_of
from upgrader.engine.journal.journal_file import Journal
from upgrader.engine.journal.record import Record
from upgrader.engine.locks.folder_lock import FolderHolder
from upgrader.engine.locks.lease_object import Holder, Lease, manifest
from upgrader.engine.state.event_fold import fold
from upgrader.model.event import (
    Event,
    RollbackRequested,
    RunEnded,
    RunStarted,
    StepApplied,
    StepEnded,
    StepStarted,
    UndoStarted,
)
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

NAME = "20260101T000000-v1.37.1"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE = FolderHolder("anna@laptop", BEGUN - timedelta(seconds=5))
AFTER = FolderHolder("ben@ci", BEGUN + timedelta(minutes=5))

STARTED = RunStarted(NAME, RunKind.UPGRADE, ("a", "b"), "/runs/x", KubernetesVersion(1, 37, 1))
STEP = StepStarted("a", "v1 → v2", RestorePoint("a", "kube-system", 4))


def journal(runs: Path, *events: Event) -> None:
    """The newest run, with these events."""
    (runs / NAME).mkdir(parents=True)
    written = Journal(runs / NAME / "journal.jsonl", FakeClock())
    for event in events:
        written.emit(event)
    written.close()


def test_run_at_work(tmp_path: Path) -> None:
    """With the lock held since before the run began, and no end in its journal, it is running, at the shown step."""
    journal(tmp_path, STARTED, STEP, StepApplied("a", 3.0))
    status = status_of(BEFORE, newest_run(tmp_path))
    assert (status.state, status.resumable) == ("running", False)
    assert status.run is not None and status.run.state.doing == "a: waiting for its gates"


def test_programs_are_told_what_runs(tmp_path: Path) -> None:
    """The step that is at work, its phase and since when; no outcome and no end are claimed of a run without one."""
    journal(tmp_path, STARTED, STEP, StepApplied("a", 3.0))
    told = status_of(BEFORE, newest_run(tmp_path)).as_json()
    assert told["now"] == {
        "doing": "a: waiting for its gates",
        "step": "a",
        "phase": "gating",
        "since": told["run"]["timeline"][-1]["began"],
    }
    assert (told["run"]["outcome"], told["run"]["ended"], told["run"]["complete"]) == ("running", "", False)
    cut_off = status_of(None, newest_run(tmp_path)).as_json()
    assert cut_off["now"] is None
    assert cut_off["run"]["outcome"] == "interrupted" and cut_off["run"]["ended"]


def test_between_two_steps_none_is_named(tmp_path: Path) -> None:
    """No step is called at work that isn't."""
    journal(tmp_path, STARTED, STEP, StepApplied("a", 2.0), StepEnded("a", "passed", 3.0))
    now = status_of(BEFORE, newest_run(tmp_path)).as_json()["now"]
    assert (now["step"], now["phase"], now["since"]) == ("", "", "")


def test_rollback_of_a_finished_run_is_at_work(tmp_path: Path) -> None:
    """A run that was over, and that the holder of the lock rolls back now, is running, and not interrupted."""
    clock = FakeClock()
    (tmp_path / NAME).mkdir(parents=True)
    written = Journal(tmp_path / NAME / "journal.jsonl", clock)
    for event in (
        STARTED,
        STEP,
        StepApplied("a", 1.0),
        StepEnded("a", "passed", 3.0),
        RunEnded(NAME, "succeeded", 4.0),
    ):
        written.emit(event)
    clock.sleep(3600)
    holder = FolderHolder("anna@laptop", clock.now() - timedelta(seconds=5))
    written.emit(RollbackRequested(NAME, "anna"))
    written.emit(UndoStarted("a", "revision 4"))
    written.close()
    status = status_of(holder, newest_run(tmp_path))
    assert (status.state, status.resumable) == ("running", False)


def test_run_that_was_cut_off(tmp_path: Path) -> None:
    """Without a holder, a run without an end was interrupted, and can be resumed."""
    journal(tmp_path, STARTED, STEP)
    status = status_of(None, newest_run(tmp_path))
    assert (status.state, status.resumable) == ("idle", True)


def test_holder_that_came_later_is_another_command(tmp_path: Path) -> None:
    """A lock that was taken after the run began isn't that run's: it was interrupted, and another command runs."""
    journal(tmp_path, STARTED, STEP)
    status = status_of(AFTER, newest_run(tmp_path))
    assert (status.state, status.resumable) == ("preparing", False)


def test_run_that_is_over(tmp_path: Path) -> None:
    """A run that has ended can't be resumed, unless it was stopped."""
    journal(tmp_path, STARTED, STEP, StepEnded("a", "passed", 3.0), RunEnded(NAME, "succeeded", 4.0))
    assert not status_of(None, newest_run(tmp_path)).resumable
    assert status_of(BEFORE, newest_run(tmp_path)).state == "preparing"


def test_stopped_run_can_be_gone_on_with(tmp_path: Path) -> None:
    """A run that was stopped on request ended in order, and is resumable."""
    journal(tmp_path, STARTED, RunEnded(NAME, "interrupted", 4.0, "stopped on request"))
    assert status_of(None, newest_run(tmp_path)).resumable


def test_way_back_is_named_while_it_is_taken(tmp_path: Path) -> None:
    """While a step is undone, that is what the run is doing, with the restore point."""
    journal(tmp_path, STARTED, STEP, StepEnded("a", "failed", 3.0, "bad flag"), UndoStarted("a", "revision 4"))
    run = newest_run(tmp_path)
    assert run is not None and run.state.doing == "a: rolling back to revision 4"


def test_nothing_yet(tmp_path: Path) -> None:
    """A folder without runs is idle, and a first command that holds the lock is preparing one."""
    assert status_of(None, newest_run(tmp_path)).state == "idle"
    assert status_of(BEFORE, newest_run(tmp_path)).state == "preparing"


def test_lock_of_the_cluster_is_told(tmp_path: Path) -> None:
    """Who holds the cluster's lock from another machine, and what it does, is in the JSON, beside this folder's run."""
    holder = Holder("ben@ci (process 9) b2", "", "20260102T000000-v1.37.1", "kube-apiserver: waiting for its gates")
    lease = Lease.read(manifest(holder, now=BEGUN))
    status = replace(status_of(None, None), cluster=lease)
    assert status.cluster_holder == holder
    lock = status.as_json()["cluster_lock"]
    assert lock["holder"]["identity"] == "ben@ci (process 9) b2"
    assert lock["since"] == "2026-01-01T00:00:00.000000Z"


def elsewhere(*events: Event) -> PastRun:
    """A run whose journal is in the cluster only."""
    records = (Record(seq, BEGUN, event) for seq, event in enumerate(events))
    return PastRun(Path("runs") / NAME, fold(records), place="the cluster")


def lease_of(run: str) -> Lease:
    """The cluster's lock, held on another machine."""
    return Lease.read(manifest(Holder("ben@ci", run=run), now=BEGUN))


def test_run_of_another_machine() -> None:
    """It is running while the cluster's lock names it, and interrupted when the lock is free or names another."""
    run = elsewhere(STARTED, STEP)
    assert status_of(None, run, lease_of(NAME)).state == "running"
    for lease in (None, lease_of("another run")):
        status = status_of(None, run, lease)
        assert (status.state, status.resumable) == ("idle", True)


def test_run_of_another_machine_that_is_over() -> None:
    """One that has ended is not running, though its lock is not released yet."""
    status = status_of(None, elsewhere(STARTED, RunEnded(NAME, "succeeded", 4.0)), lease_of(NAME))
    assert (status.state, status.resumable) == ("idle", False)
