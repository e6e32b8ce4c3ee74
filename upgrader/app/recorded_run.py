"""A run that was recorded: its journal, or the file that `-o json` was written to. What others wrote is only data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from upgrader.app.event_lines import read_line
from upgrader.engine.journal.decode import UnknownEvent
from upgrader.engine.journal.journal_file import JOURNAL, parse_journal
from upgrader.errors import UsageError
from upgrader.model.event import Event, RunStarted

__all__ = ["RecordedRun", "recorded_run"]

_MOST_BYTES = 64 * 2**20
"""Journals stay far below: they take no gate checks and notes from 4 MiB on."""


@dataclass(frozen=True)
class RecordedRun:
    """The events of a run, each with its time; the first one is a RunStarted."""

    file: Path
    events: tuple[tuple[datetime, Event | UnknownEvent], ...]

    @property
    def began(self) -> datetime:
        """When its first event was recorded."""
        return self.events[0][0]


def recorded_run(folder: Path, name: str) -> RecordedRun:
    """The run of that name in the cluster folder, or that of a file.

    A last line without an end is ignored. Raises UsageError that names the line where anything else is wrong.
    """
    file = folder / "runs" / name / JOURNAL
    if "/" in name or not _is_file(file):
        file = Path(name)
    content = _content(file, name)
    events = tuple(_journal(content, file) if _is_journal(content) else _stream(content, file))
    first = next((place for place, (_, event) in enumerate(events) if isinstance(event, RunStarted)), None)
    if first is None:
        raise UsageError(f"{file} has no run: it has no RunStarted event", remedy=_REMEDY)
    return RecordedRun(file, events[first:])


_REMEDY = "Pass the name of a run (see `upgrader history`), a journal, or a file with `-o json` output."


def _content(file: Path, name: str) -> bytes:
    if not _is_file(file):  # also not a pipe or a device, which may have no end
        raise UsageError(f"there is no run {name} in this cluster folder, and no such file", remedy=_REMEDY)
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{file} is larger than {_MOST_BYTES // 2**20} MiB, more than a run writes", remedy=_REMEDY)
    return content


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # in a folder of somebody else
        raise UsageError(
            f"{path} can't be read: {error.strerror}", remedy="Run it as a user who can read it."
        ) from error


def _is_journal(content: bytes) -> bool:
    return content.startswith(b'{"schema":')


def _journal(content: bytes, file: Path) -> Iterator[tuple[datetime, Event | UnknownEvent]]:
    return ((record.time, record.event) for record in parse_journal(content, str(file)))


def _stream(content: bytes, file: Path) -> Iterator[tuple[datetime, Event | UnknownEvent]]:
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            time, event = read_line(line)
        except ValueError as error:
            raise UsageError(f"{file}:{number}: this line can't be replayed: {error}", remedy=_REMEDY) from error
        if event is not None:
            yield time, event
