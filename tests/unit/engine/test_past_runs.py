"""Which runs a cluster folder keeps, and which it removes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from upgrader.engine.history.past_runs import past_runs, prune
from upgrader.engine.journal.journal_file import Journal
from upgrader.errors import UsageError
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.outcome import RunOutcome
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion(1, 37, 1)


def a_run(runs: Path, day: int, outcome: RunOutcome | None = "succeeded", kind: RunKind = RunKind.UPGRADE) -> str:
    """The folder of a run that ended so (None: it was killed); returns its name."""
    name = f"202601{day:02}T120000-{TARGET if kind is RunKind.UPGRADE else kind}"
    folder = runs / name
    folder.mkdir(parents=True)
    journal = Journal(folder / "journal.jsonl", FakeClock())
    journal.emit(RunStarted(name, kind, ("a",), str(folder), TARGET if kind is RunKind.UPGRADE else None))
    if outcome:
        journal.emit(RunEnded(name, outcome, 1.0))
    journal.close()
    return name


def names(runs: Path) -> list[str]:
    """The runs that are there."""
    return [run.name for run in past_runs(runs)]


def test_runs_are_listed_by_time_with_their_outcomes(tmp_path: Path) -> None:
    """Every run is there, oldest first; one that was killed is interrupted, one with a damaged journal is unknown."""
    a_run(tmp_path, 2, None)
    a_run(tmp_path, 1, "rolled-back")
    damaged = tmp_path / a_run(tmp_path, 3) / "journal.jsonl"
    damaged.write_bytes(damaged.read_bytes().replace(b"succeeded", b"rolled-bac"))
    runs = past_runs(tmp_path)
    assert [run.outcome for run in runs] == ["rolled-back", "interrupted", "unknown"]
    assert "journal.jsonl:2" in runs[2].problem


@pytest.mark.parametrize("line", ["[" * 100_000, '{"data": {"sequence": "7"}}', "\udcff", ""])
def test_journal_that_is_no_journal(tmp_path: Path, line: str) -> None:
    """Whatever a damaged file holds, the other runs are still listed, and it is named with what is wrong."""
    broken = tmp_path / a_run(tmp_path, 3) / "journal.jsonl"
    broken.write_bytes(line.encode(errors="surrogateescape") + b"\n")
    good = a_run(tmp_path, 2)
    found = {run.name: run.problem for run in past_runs(tmp_path)}
    assert found.pop(broken.parent.name) and found == {good: ""}


@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_journal_that_is_no_plain_file(tmp_path: Path, kind: str) -> None:
    """What is there in place of a journal isn't waited for, or read without an end: the run is unknown."""
    a_run(tmp_path, 1)
    journal = tmp_path / a_run(tmp_path, 2) / "journal.jsonl"
    journal.unlink()
    if kind == "pipe":
        os.mkfifo(journal)
    elif kind == "device":
        journal.symlink_to("/dev/zero")
    else:
        with journal.open("wb") as file:
            file.truncate(2**40)
    assert [run.outcome for run in past_runs(tmp_path)] == ["succeeded", "unknown"]


def test_no_runs_yet(tmp_path: Path) -> None:
    """A cluster folder that never saw a run has no history, and nothing to prune."""
    assert past_runs(tmp_path / "runs") == ()
    assert prune(tmp_path / "runs", 1) == ()


def test_newest_runs_are_kept(tmp_path: Path) -> None:
    """Runs older than the newest N are removed, folder and all."""
    made = [a_run(tmp_path, day) for day in range(1, 6)]
    assert prune(tmp_path, 3) == tuple(made[:2])
    assert names(tmp_path) == made[2:]
    assert [path.name for path in tmp_path.iterdir() if path.name not in made] == []


def test_last_successful_run_is_kept(tmp_path: Path) -> None:
    """However many failures came after it, the last run that succeeded stays; earlier successes are removed."""
    a_run(tmp_path, 1)
    good = a_run(tmp_path, 2)
    made = [a_run(tmp_path, day, "rolled-back") for day in range(3, 8)]
    prune(tmp_path, 2)
    assert names(tmp_path) == [good, *made[-2:]]


def test_runs_of_other_sorts_push_no_upgrade_out(tmp_path: Path) -> None:
    """However often `recover` was run since, the last upgrade, and the last upgrade that succeeded, are kept."""
    good, interrupted = a_run(tmp_path, 1), a_run(tmp_path, 3, None)
    a_run(tmp_path, 2, "rolled-back")
    made = [a_run(tmp_path, day, "succeeded", RunKind.RECOVER) for day in range(4, 8)]
    prune(tmp_path, 1)
    assert names(tmp_path) == [good, interrupted, made[-1]]


@pytest.mark.parametrize("damaged", [False, True])
def test_run_that_can_go_on_is_kept(tmp_path: Path, damaged: bool) -> None:
    """The newest run stays when it was interrupted, and when its journal is not valid."""
    for day in (1, 2):
        a_run(tmp_path, day)
    newest = a_run(tmp_path, 3, None)
    if damaged:
        (tmp_path / newest / "journal.jsonl").write_bytes(b"garbage\n")
    prune(tmp_path, 1)
    assert newest in names(tmp_path)


def test_only_runs_are_removed(tmp_path: Path) -> None:
    """Folders and files of other names, and links, are not touched."""
    made = [a_run(tmp_path, day) for day in (1, 2, 3)]
    (tmp_path / "notes").mkdir()
    (tmp_path / ".lock").touch()
    elsewhere = tmp_path.parent / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "20250101T000000-linked").symlink_to(elsewhere)
    prune(tmp_path, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "20250101T000000-linked", made[2], "notes"]


def test_interrupted_removal_is_completed(tmp_path: Path) -> None:
    """A folder whose removal was interrupted is not a run any more, and is removed the next time."""
    half = tmp_path / f".removing-{a_run(tmp_path, 1)}"
    (tmp_path / half.name.removeprefix(".removing-")).rename(half)
    newest = a_run(tmp_path, 2)
    assert names(tmp_path) == [newest]
    prune(tmp_path, 5)
    assert not half.exists()


def test_run_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that can't be removed is an error that names it, before the run changes anything."""
    old = a_run(tmp_path, 1)
    a_run(tmp_path, 2)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("upgrader.engine.history.past_runs.shutil.rmtree", refuse)
    with pytest.raises(UsageError, match=rf"{old}.* Permission denied"):
        prune(tmp_path, 1)
