"""The runs of a cluster folder, and how each ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.engine.journals import a_run
from upgrader.engine.history.past_runs import past_runs


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
    """A cluster folder that never saw a run has no history."""
    assert past_runs(tmp_path / "runs") == ()
