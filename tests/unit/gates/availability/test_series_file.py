"""`availability.jsonl`: what a killed process, a full disk or a strange file costs is lines, and nothing else."""

from __future__ import annotations

import json
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testkit.waiting import stretched
from upgrader.gates.availability import series_file
from upgrader.gates.availability.series_file import SERIES, SeriesWriter, read_series
from upgrader.model.availability_series import Kind, Sample

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def sample(second: int, failed: int = 0) -> dict[str, Any]:
    """The sample of a second, as the prober writes it."""
    time = BEGAN + timedelta(seconds=second)
    return Sample(time, 1.0, 10, 10 - failed, failed, 2.0, 8.0, 0.0, {"get": Kind(10 - failed, failed, 8.0)}).as_json()


def seconds(path: Path) -> list[int]:
    """Which seconds the file has."""
    return [int((each.time - BEGAN).total_seconds()) for each in read_series(path).samples]


def test_a_resumed_run_goes_on_in_the_same_file(tmp_path: Path) -> None:
    """Each process adds its samples; nobody else can read the file."""
    path = tmp_path / SERIES
    for second in (0, 1):
        with SeriesWriter(path) as writer:
            writer.append([sample(second)])
        assert writer.problem == ""
    assert seconds(path) == [0, 1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_run_without_a_prober_leaves_no_file(tmp_path: Path) -> None:
    """Nothing is opened before there is something to write; the report then says why it has no curves."""
    with SeriesWriter(tmp_path / SERIES):
        pass
    assert list(tmp_path.iterdir()) == []
    assert read_series(tmp_path / SERIES).problem == f"the run's folder has no {SERIES}"


def test_a_torn_line_costs_itself(tmp_path: Path) -> None:
    """A process that was killed while it wrote leaves half a line: the samples before and after it are read."""
    path = tmp_path / SERIES
    path.write_text(json.dumps(sample(0)) + "\n" + json.dumps(sample(1))[:30])
    with SeriesWriter(path) as writer:
        writer.append([sample(2)])
    found = read_series(path)
    assert seconds(path) == [0, 2]
    assert found.unreadable == 1


def test_a_full_disk_costs_samples_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was half written is ended when the disk has room again, and the writer says what it could not write."""
    path, full, write = tmp_path / SERIES, [False], os.write

    def of_a_full_disk(file: int, content: memoryview) -> int:
        if full[0]:
            full[0] = False
            write(file, content[:20])
            raise OSError(28, "No space left on device")
        return write(file, content)

    monkeypatch.setattr(os, "write", of_a_full_disk)
    with SeriesWriter(path) as writer:
        writer.append([sample(0)])
    full[0] = True
    with SeriesWriter(path) as writer:
        writer.append([sample(1)])
        writer.append([sample(2)])
    assert writer.problem == "some samples could not be written: No space left on device"
    assert seconds(path) == [0, 2]


@pytest.mark.parametrize("what", ["folder", "link"])
def test_a_file_that_can_not_be_written_is_no_error(tmp_path: Path, what: str) -> None:
    """Something else of that name in the run's folder: nothing is written through it, and the run goes on."""
    path = tmp_path / SERIES
    if what == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with SeriesWriter(path) as writer:
        writer.append([sample(0)])
    assert writer.problem.startswith("some samples could not be written: ")
    assert not (tmp_path / "elsewhere").exists()
    assert read_series(path).problem.startswith(f"{SERIES} in the run's folder can't be read: ")


def test_it_has_a_limit(tmp_path: Path) -> None:
    """A run of weeks fills no disk: the file keeps what it has, and the writer says that it takes no more."""
    path = tmp_path / SERIES
    with SeriesWriter(path, max_bytes=1000) as writer:
        for second in range(50):
            writer.append([sample(second)])
    assert path.stat().st_size <= 1000
    assert seconds(path) == list(range(len(seconds(path)))) and seconds(path)
    assert "takes no more samples" in writer.problem


def test_a_disk_that_hangs_holds_nobody_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples wait for it up to a limit, beyond which they are dropped: the prober's counts are never late for it. Its
    thread ends as soon as the disk answers."""
    monkeypatch.setattr(series_file, "_WAITING", 2)
    monkeypatch.setattr(series_file, "_CLOSE_SECONDS", 0.0)
    path = tmp_path / SERIES
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    released = threading.Event()
    monkeypatch.setattr(SeriesWriter, "_write", lambda *_: released.wait(stretched(60)))
    writer = SeriesWriter(path)
    with writer:
        for second in range(10):
            writer.append([sample(second)])
        assert writer.problem == "the disk was too slow for some samples"
    assert writer.problem == "the disk does not respond"
    released.set()
    for thread in threading.enumerate():
        if thread.name == SERIES:
            thread.join(stretched(30))
            assert not thread.is_alive()
    os.close(reader)


@pytest.mark.parametrize(
    "line",
    [
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({**sample(0), "time": "yesterday"}),
        json.dumps({**sample(0), "time": "0001-01-01T00:00:00+00:00"}),
        json.dumps({**sample(0), "time": "2026-01-01T00:00:00"}),
        json.dumps({**sample(0), "seconds": 0}),
        json.dumps({**sample(0), "slowest_ms": float("nan")}),
        json.dumps({**sample(0), "slowest_ms": float("inf")}),
        json.dumps({**sample(0), "begun": -1}),
        json.dumps({**sample(0), "failed": "3"}),
        json.dumps({**sample(0), "begun": 10**400}),
        json.dumps({**sample(0), "kinds": {"get": 3}}),
        json.dumps({**sample(0), "kinds": None}),
        "\udcff\x00",
    ],
)
def test_what_is_no_sample_is_left_out(tmp_path: Path, line: str) -> None:
    """A damaged line, or one of another program's, is counted and not drawn; a report is made all the same."""
    path = tmp_path / SERIES
    path.write_bytes(line.encode(errors="surrogateescape") + b"\n" + json.dumps(sample(1)).encode() + b"\n")
    assert seconds(path) == [1]
    assert read_series(path).unreadable == 1
    path.write_bytes(b"\n")
    assert read_series(path).problem == f"{SERIES} in the run's folder has no sample"


def test_a_pipe_of_that_name_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody writes into it: reading it would never end."""
    os.mkfifo(tmp_path / SERIES)
    assert read_series(tmp_path / SERIES).problem == f"{SERIES} in the run's folder is not a file"
