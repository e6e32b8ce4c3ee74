"""Runs without an end that a cluster has before a campaign begins it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.fleet.test_outcomes import FIRST, write_run
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.fleet.open_runs import how_to_end, open_run
from upgrader.model.event import RunEnded, RunStarted, StepStarted
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind

LATER = "20260101T000002-later"


def write_later(folder: Path, kind: RunKind, name: str = LATER, *, ended: bool = True) -> None:
    run = folder / "runs" / name
    run.mkdir()
    journal = Journal(run / JOURNAL, FakeClock())
    journal.emit(RunStarted(name, kind, (), f"runs/{name}"))
    journal.emit(StepStarted("kube-apiserver", "3 → 2 replicas", RestorePoint("kube-apiserver", "kube-system", 2)))
    if ended:
        journal.emit(RunEnded(name, "succeeded", 2.0))
    journal.close()


@pytest.mark.parametrize(
    ("kind", "is_open"),
    [(RunKind.LEAVE_OUT_CONTROLLER, False), (RunKind.SIGN_WITH_NEW_CA, False), (RunKind.RENEW_CERTIFICATES, True)],
)
def test_interrupted_upgrade_before_a_later_run(tmp_path: Path, kind: RunKind, is_open: bool) -> None:
    """One on which a later run builds can't be resumed or rolled back any more, so it isn't demanded."""
    write_run(tmp_path)
    write_later(tmp_path, kind)
    assert open_run(tmp_path, lambda: "it may be at work") == (f"run {FIRST}" if is_open else "")


def test_command_that_ends_a_run_can_be_copied() -> None:
    """Its folder is quoted as a shell needs it."""
    assert how_to_end(Path("/srv/north 1")).startswith("upgrader -C '/srv/north 1' resume, or rollback")


def test_later_run_without_an_end_is_open(tmp_path: Path) -> None:
    """A run that builds on an interrupted upgrade ends nothing while a process may be at work on the cluster; one that
    was killed may lack its end for ever, as the same command has nothing left to do. A run which a person began in its
    place, and which has ended, needs no one to be asked.
    """
    write_run(tmp_path)
    write_later(tmp_path, RunKind.ADOPT, ended=False)
    assert open_run(tmp_path, lambda: "locked by me") == f"run {LATER}, which builds on run {FIRST}: locked by me"
    assert open_run(tmp_path, lambda: "") == ""
    write_later(tmp_path, RunKind.ADOPT, "20260102T000000-later")
    assert open_run(tmp_path, lambda: pytest.fail("it has ended")) == ""
