"""Processes of this machine, and what is known of them by a coordinator that didn't begin them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from upgrader.errors import UsageError
from upgrader.fleet.local_executor import LocalExecutor
from upgrader.fleet.outcomes import CommandEnd, Sign

LAST = (
    '{"format_version":"1.0","time":"2026-12-01T00:00:00Z","type":"CommandEnded","data":{"exit_code":4,"run":"r",'
    '"error":{"code":"GateFailed","what":"failed","why":"so"}}}'
)


def executor(script: str) -> LocalExecutor:
    return LocalExecutor(("sh", "-c", script, "sh"), environ={"PATH": "/usr/bin:/bin"})


def test_attempt_is_seen_by_another_coordinator(tmp_path: Path) -> None:
    """A live process holds its attempt: no coordinator begins it again; its last line is how it ended."""
    attempt, gate = tmp_path / "a/1", tmp_path / "gate"
    os.mkfifo(gate)
    first = executor(f"read line < {gate}; echo \"$line\"; echo '{LAST}'")
    first.start(attempt, ["run"])
    second = executor("echo twice")
    assert second.running(attempt)
    assert second.sign(attempt) == Sign(f"process {first._processes[0].pid}")
    os.utime(attempt / "log", (9e8, 9e8))
    (attempt / "events.jsonl").write_text("{}\n")
    os.utime(attempt / "events.jsonl", (1e9, 1e9))
    assert second.sign(attempt).time == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    with pytest.raises(UsageError, match="none can't be read"):
        second.sign(tmp_path / "none")
    second.start(attempt, ["run"])
    with gate.open("w") as opened:
        opened.write("begun\n")
    for process in first._processes:
        process.wait()
    assert not second.running(attempt) and not first.running(attempt)
    end = second.end(attempt)
    assert end is not None and (end.exit_code, end.run, end.code, end.what) == (4, "r", "GateFailed", "failed")
    assert "twice" not in (attempt / "events.jsonl").read_text()


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        '{"type":"RunStarted"}',
        '{"type":"CommandEnded","data":{}}',
        '{"type":"CommandEnded","data":[]}',
        '{"type":"CommandEnded","data":{"exit_code":1e999}}',
        '{"type":"CommandEnded","data":{"exit_code":4,"error":"x"}}',
    ],
)
def test_process_that_did_not_say_how_it_ended(tmp_path: Path, said: str) -> None:
    """Nothing, half a line, or what a playbook has written in its place: how it ended is unknown."""
    found = executor("true")
    assert not found.running(tmp_path / "a/1") and found.end(tmp_path / "a/1") is None
    (tmp_path / "events.jsonl").write_text(said)
    end: CommandEnd | None = found.end(tmp_path)
    assert end is None


def test_program_that_can_not_be_started(tmp_path: Path) -> None:
    """The error names the program; a folder that can't be written is named as well."""
    with pytest.raises(UsageError, match="/none can't be started"):
        LocalExecutor(("/none",), environ={}).start(tmp_path / "1", [])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        executor("true").start(tmp_path / "file/1", [])
