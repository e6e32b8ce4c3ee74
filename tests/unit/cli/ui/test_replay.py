"""Recorded runs: shown as they were, marked as recordings, and harmless whatever is in the file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testkit import example_runs
from testkit.example_runs import GOOD, HOSTILE, INTERRUPTED, RUN, Story, journal_of
from upgrader.app.event_lines import CommandEnded, line_of
from upgrader.app.recorded_run import recorded_run
from upgrader.cli.ui.replay import LONGEST_PAUSE, RecordedTime, replay
from upgrader.errors import UsageError
from upgrader.model.event import Note

SPEED = 10.0


class Terminal(io.StringIO):
    """A terminal of 80 columns and 24 rows."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every terminal has 80 columns and 24 rows, and no colours."""
    for name, value in {"COLUMNS": "80", "LINES": "24", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)


def events_file(story: Story, folder: Path, *more: str) -> Path:
    """What `-o json` of a command that had this run wrote."""
    run = journal_of(story, folder / "of")
    recorded = recorded_run(folder, str(run / "journal.jsonl"))
    lines = [line_of(event, at) for at, event in recorded.events]  # type: ignore[arg-type]  # this version knows all
    file = folder / "events.jsonl"
    file.write_text("".join([*lines, *more]))
    return file


def shown(
    folder: Path, name: str, stream: io.StringIO | None = None, wait: Callable[[float], bool] = lambda _: False
) -> str:
    """What is printed of that run."""
    out = stream or io.StringIO()
    replay(recorded_run(folder, name), out, SPEED, wait)
    return out.getvalue()


def test_run_of_the_folder_in_plain_lines(tmp_path: Path) -> None:
    """Without a terminal: each line with its recorded time, and marked, and all of them at once."""
    journal_of(GOOD, tmp_path)
    first, *lines, last = shown(tmp_path, RUN).splitlines()
    assert "recording of 2026-01-01" in first and last == "The recording ends here."
    assert all(line.startswith("recorded ") for line in lines)
    assert any("00:00:16Z  kube-apiserver: started" in line for line in lines)


def test_events_are_replayed_as_the_journal_is(tmp_path: Path) -> None:
    """The file of `-o json` shows the same as the run's journal; its last line is none of the run's."""
    ended = line_of(CommandEnded(0), recorded_run(tmp_path, str(events_file(GOOD, tmp_path))).began)
    file = events_file(GOOD, tmp_path / "with-an-end", ended)
    assert shown(tmp_path, str(file)) == shown(tmp_path, str(tmp_path / "of" / "runs" / RUN / "journal.jsonl"))


def test_display_is_marked_and_compressed(tmp_path: Path) -> None:
    """On a terminal: the live display with a line that says what it is; a night passes in two seconds."""
    journal_of(INTERRUPTED, tmp_path)
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return False

    output = re.sub("\x1b\\[[0-9;]*m", "", shown(tmp_path, RUN, Terminal(), wait))
    assert "RECORDING of 2026-01-01 at 10× speed" in output
    assert re.search("Upgrade to v1.37.1 .* 4.0 s\n", output), "the time since it was resumed"
    assert max(waits) == LONGEST_PAUSE
    assert sum(waits) < 38.0 / SPEED + 2 * LONGEST_PAUSE


def test_ends_when_told(tmp_path: Path) -> None:
    """Ctrl-C ends it in the middle, with the last picture left."""
    journal_of(GOOD, tmp_path)
    output = shown(tmp_path, RUN, Terminal(), lambda seconds: seconds > 0)
    assert "RECORDING" in output and "succeeded" not in output


def test_recorded_time_passes_evenly_and_never_back() -> None:
    """Between two events, the time of the display goes from one to the next at the recording's speed."""
    now = [100.0]
    passing = RecordedTime(lambda: now[0])
    assert passing() == 0.0
    assert passing.until(20.0, 10.0) == 2.0
    now[0] += 1.0
    assert passing() == 10.0
    now[0] += 5.0
    assert passing() == 20.0
    assert passing.until(5.0, 10.0) == 0.0 and passing() == 20.0


@pytest.mark.parametrize("terminal", [True, False])
def test_hostile_run_is_shown_harmlessly(tmp_path: Path, terminal: bool) -> None:
    """No control character of the recording reaches the terminal; only the display's own do."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
    story = [*HOSTILE, (9.0, Note(evil)), (9.5, Note("x" * 5000))]
    journal_of(story, tmp_path)
    output = shown(tmp_path, RUN, Terminal() if terminal else None)
    assert "\x1b]0" not in output and "\x07" not in output and "\x9b" not in output and "\u202e" not in output
    assert "\x1b[2J" not in output
    assert terminal or "\x1b" not in output


def test_event_of_a_newer_version(tmp_path: Path) -> None:
    """It is mentioned, and the rest is shown."""
    newer = {
        "format_version": "1.9",
        "time": "2026-01-01T00:01:20Z",
        "type": "Teleported\x1b[2J" + "x" * 100,
        "data": {},
    }
    output = shown(tmp_path, str(events_file(GOOD, tmp_path, json.dumps(newer) + "\n")))
    assert "from a newer version of upgrader: Teleported" in output and "\x1b" not in output and "x" * 60 not in output


def test_torn_last_line_is_ignored(tmp_path: Path) -> None:
    """A command that was killed leaves such a line."""
    file = events_file(GOOD, tmp_path)
    whole = shown(tmp_path, str(file))
    with file.open("a") as appended:
        appended.write('{"format_version":"1.0","time":"2026-01-')
    assert shown(tmp_path, str(file)) == whole


def _line(**changed: Any) -> str:
    fields = {"format_version": "1.0", "time": "2026-01-01T00:00:00Z", "type": "Note", "data": {"text": "x"}}
    return json.dumps({**fields, **changed}) + "\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense\n", "not a JSON object"),
        ("[" * 100_000 + "\n", "not a JSON object"),
        (_line(format_version="2.0"), "reads 1"),
        (_line(format_version=1), "reads 1"),
        (_line(time=7), "no time"),
        (_line(time="2026-01-01T00:00:00"), "no zone"),
        (_line(time="9999-12-31T23:59:59Z"), "in the year 9999"),
        (_line(time="0001-01-01T00:00:00+23:59"), "in the year 1"),
        (_line(time="yesterday"), "yesterday"),
        (_line(data={"text": 7}), "should be text"),
        (_line(data=None), "should be an object"),
    ],
)
def test_damaged_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    """Anything else that is wrong is an error with the file, the line and what is wrong with it."""
    file = events_file(GOOD, tmp_path, line)
    with pytest.raises(UsageError, match=why) as error:
        recorded_run(tmp_path, str(file))
    assert f"{file}:{len(GOOD) + 1}: " in error.value.message


def test_damaged_journal_is_refused(tmp_path: Path) -> None:
    """As by every other reader of a journal."""
    file = journal_of(GOOD, tmp_path) / "journal.jsonl"
    file.write_text(file.read_text().replace("kube-proxy", "kube-proxX", 1))
    with pytest.raises(UsageError, match="checksum is wrong"):
        recorded_run(tmp_path, RUN)


def test_what_is_no_recording(tmp_path: Path) -> None:
    """No such run, a device without an end, a file without a run, and one of any size: refused, with what to give."""
    empty, large = tmp_path / "empty", tmp_path / "large"
    empty.touch()
    with large.open("wb") as file:
        file.truncate(65 * 2**20)
    for name, why in {
        "nope": "no run nope",
        "/dev/zero": "no such file",
        str(empty): "no run",
        str(large): "64 MiB",
    }.items():
        with pytest.raises(UsageError, match=why) as error:
            recorded_run(tmp_path, name)
        assert "upgrader history" in error.value.remedy


def test_run_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that this user may not open isn't taken for one without that run."""

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(UsageError, match="can't be read: Permission denied"):
        recorded_run(tmp_path, RUN)


def test_every_example_can_be_replayed(tmp_path: Path) -> None:
    """Whatever a journal may hold is shown to its end."""
    for name in ("ROLLED_BACK", "RECOVERED", "STUCK"):
        journal_of(getattr(example_runs, name), tmp_path, name)
        assert shown(tmp_path, name).endswith("The recording ends here.\n")
