"""Which run is the newest, whatever the clocks of the machines said."""

from __future__ import annotations

from pathlib import Path

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.engine.history.journal_replicas import LocalJournals
from upgrader.engine.history.past_runs import highest_sequence, newest_run, past_runs
from upgrader.engine.history.run_discovery import DiscoveredRuns, find_runs, with_remote_runs
from upgrader.engine.history.run_order import in_order
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.engine.locks.cluster_lock import acquire
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE, Holder
from upgrader.model.event import RunStarted
from upgrader.model.run_kind import RunKind

OLD, AHEAD, LATER = "20260101T080000-v1.36.3", "20260101T150000-v1.36.3", "20260101T121000-v1.37.1"


def add(runs: Path, name: str, sequence: int) -> None:
    """A run of this folder."""
    (runs / name).mkdir(parents=True)
    journal = Journal(runs / name / JOURNAL, FakeClock())
    journal.emit(RunStarted(name, RunKind.UPGRADE, ("a",), "", sequence=sequence))
    journal.close()


def test_clock_that_is_ahead_does_not_make_a_run_the_newest(tmp_path: Path) -> None:
    """A run of a laptop whose clock is three hours ahead comes before the run that followed it, here and elsewhere."""
    add(tmp_path, OLD, 0)
    add(tmp_path, AHEAD, 4)
    add(tmp_path, LATER, 5)
    order = [OLD, AHEAD, LATER]
    assert [run.name for run in past_runs(tmp_path)] == order
    newest = newest_run(tmp_path)
    assert newest is not None and newest.name == LATER
    found = find_runs((LocalJournals(tmp_path),))
    assert [run.name for run in found.runs] == order
    assert [run.name for run in with_remote_runs(past_runs(tmp_path), found, tmp_path)] == order
    assert [run.name for run in with_remote_runs((), DiscoveredRuns(found.runs[::-1], ()), tmp_path)] == order


def test_runs_of_older_versions_keep_their_places() -> None:
    """What has no number is sorted by its time, as before."""
    runs = {"d": 2, "a": 0, "b": 3, "e": 0}
    assert in_order(runs, name=str, sequence=lambda run: runs[run]) == ["a", "d", "b", "e"]


def test_number_of_a_folder_is_what_its_journals_say(tmp_path: Path) -> None:
    """A journal that is damaged, empty or missing has none."""
    assert highest_sequence(tmp_path) == 0
    add(tmp_path, LATER, 7)
    for name, content in (("20260102T000000-x", b"[1]"), ("20260103T000000-x", b""), ("20260104T000000-x", None)):
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / JOURNAL).write_bytes(content)
    (tmp_path / "20260104T000000-x" / JOURNAL).write_bytes(b'{"data": {"sequence": "many"}}')
    assert highest_sequence(tmp_path) == 7


def test_lock_counts_its_holders() -> None:
    """Each holder of the lock has a higher number than the one before, from the API's own counter."""
    kube, clock = FakeKube(), FakeClock()
    seen = []
    for name in ("anna", "ben", "anna"):
        lock = acquire(kube, clock, Holder(name), take_over=False, note=lambda _: None)
        seen.append(lock.sequence)
        assert lock.release()
    assert seen == [1, 2, 3]


def test_a_lock_that_counts_from_an_older_number_continues_after_the_runs_that_are_known() -> None:
    """A Lease that was deleted, or restored from a backup, counts on from the newest run of the folder that takes it
    first; so the next holder, whose folder has no runs, has a higher number still."""
    kube, clock = FakeKube(), FakeClock()

    def number(known: int) -> int:
        lock = acquire(kube, clock, Holder("anna"), take_over=False, note=lambda _: None, known=known)
        assert lock.release()
        return lock.sequence

    assert number(0) == 1
    assert number(7) == 8, "the backup was older than run 7"
    assert number(0) == 9, "a folder without runs"
    kube.delete(LEASES, NAME, NAMESPACE)
    assert number(9) == 10
    assert number(0) == 11


def test_a_lock_that_is_deleted_while_it_is_held_goes_on_counting() -> None:
    """Its holder creates the Lease again, and the next holder has a higher number."""
    kube, clock = FakeKube(), FakeClock()
    lock = acquire(kube, clock, Holder("anna"), take_over=False, note=lambda _: None, known=5)
    kube.delete(LEASES, NAME, NAMESPACE)
    assert lock.renew() and lock.release()
    assert acquire(kube, clock, Holder("ben"), take_over=False, note=lambda _: None).sequence == 7
