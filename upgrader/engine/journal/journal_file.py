"""The journal: what a run did, one line for each event, on disk before the next action.

A crash can tear only the last line, which readers ignore. Anything else that can't be read is an error that names the
line: a partly trusted journal is worse than none. `record.py` defines the format of a line.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from upgrader.config.plain_file import open_plain, read_plain
from upgrader.engine.journal.atomic import sync_folder
from upgrader.engine.journal.decode import EVENTS
from upgrader.engine.journal.glance import JOURNAL, MOST_BYTES, first_line
from upgrader.engine.journal.record import Record, checked, encode
from upgrader.errors import JournalError, UsageError
from upgrader.model.event import GateChecked, Note
from upgrader.ports import Clock

__all__ = [
    "DETAIL_BYTES",
    "JOURNAL",
    "Journal",
    "JournalPlace",
    "each_record",
    "first_line",
    "parse_journal",
    "read_further",
    "read_journal",
]

DETAIL_BYTES = 4 * 2**20
"""The size from which a journal takes only steps and how they ended: no gate checks, no notes."""

_FULL = f"The journal has reached {DETAIL_BYTES // 2**20} MiB: further notes and gate checks are not recorded."


@dataclass(frozen=True)
class JournalPlace:
    """Where the next record goes: its number, the checksum of the one before, and the file's size."""

    seq: int = 0
    checksum: str = ""
    size: int = 0


class Journal:
    """A Reporter that writes events to `journal.jsonl` and returns only when they are on disk."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        file: int | None = None,
        seq: int = 0,
        checksum: str = "",
        goes_on: str = "upgrader resume",
    ) -> None:
        """Start a new journal (mode 0600); raises FileExistsError where there is one already.

        `reopen` continues one: an open `file` that ends with record `seq` - 1 and its checksum. `goes_on` is the
        command that continues what the journal is of.
        """
        self._path = path
        self._clock = clock
        self._goes_on = goes_on
        self._failure: JournalError | None = None
        self._seen: dict[tuple[str, str], tuple[str, str]] = {}
        self._file = _new(path) if file is None else file
        self._end = JournalPlace(seq, checksum, os.fstat(self._file).st_size)
        self._full = self._end.size >= DETAIL_BYTES

    @classmethod
    def reopen(
        cls,
        path: Path,
        clock: Clock,
        *,
        events: Mapping[str, type[Any]] = EVENTS,
        goes_on: str = "upgrader resume",
    ) -> Self:
        """Continue a journal of such events whose process has ended; a torn last line is removed first.

        The caller holds the run's locks. Raises UsageError where the journal is not valid, or can't be written.
        """
        content = _content(path)
        records = parse_journal(content, str(path), events)
        whole = content[: content.rfind(b"\n") + 1]
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.ftruncate(file, len(whole))
        except OSError as error:
            raise UsageError(f"the journal {path} can't be written: {error.strerror}") from error
        return cls(path, clock, file=file, seq=len(records), checksum=_last_checksum(whole), goes_on=goes_on)

    @property
    def end(self) -> JournalPlace:
        """Where the next record goes, as `read_further` has it once it has read all that was written."""
        return self._end

    def emit(self, event: object) -> None:
        """Write an event: a frozen dataclass.

        Raises JournalError when it can't be written, and from then on: a run without a journal must not continue.
        """
        if self._failure is not None:
            raise self._failure
        if isinstance(event, GateChecked) and not self._is_new(event):
            return
        if isinstance(event, GateChecked | Note) and self._end.size >= DETAIL_BYTES:
            if not self._full:
                self._full = True
                self._write(Note(_FULL))
            return
        self._write(event)

    def close(self) -> None:
        """Close the file; nothing can be written after that."""
        os.close(self._file)

    def _write(self, event: object) -> None:
        end = self._end
        line, checksum = encode(end.seq, self._clock.now(), event, end.checksum)
        try:
            rest = line
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
            self._end = JournalPlace(end.seq + 1, checksum, end.size + len(line))
        except OSError as error:
            self._truncate()
            self._failure = JournalError(
                f"{self._path} can't be written: {error.strerror}; the run was stopped",
                remedy=f"Free disk space or fix the disk, then run `{self._goes_on}`.",
            )
            raise self._failure from error
        except BaseException:
            # A second Ctrl-C: later records must follow a complete line.
            self._truncate()
            raise

    def _truncate(self) -> None:
        """Remove the partial line that a full disk leaves: a reader could not tell it from one that a crash tore."""
        with suppress(OSError):
            os.ftruncate(self._file, self._end.size)

    def _is_new(self, event: GateChecked) -> bool:
        """Gates are checked every second; only a new answer is written."""
        key, answer = (event.step, event.gate), (event.verdict.kind.value, event.verdict.reason)
        if self._seen.get(key) == answer:
            return False
        self._seen[key] = answer
        return True


def read_journal(path: Path, events: Mapping[str, type[Any]] = EVENTS) -> tuple[Record, ...]:
    """Every record of a journal of such events.

    Raises UsageError that names the file, the damaged line and the damage.
    """
    return parse_journal(_content(path), str(path), events)


def read_further(
    path: Path, place: JournalPlace, events: Mapping[str, type[Any]] = EVENTS
) -> tuple[tuple[Record, ...], JournalPlace]:
    """The records from a place on, and the place behind them: for who reads a journal again and again. As above."""
    try:
        with open_plain(path) as file:
            file.seek(place.size)
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes", str(path))
    except OSError as error:
        raise _unreadable(path, error) from error
    whole = content[: content.rfind(b"\n") + 1]
    records = tuple(_records(whole, str(path), events, place))
    checksum = _last_checksum(whole) or place.checksum
    return records, JournalPlace(place.seq + len(records), checksum, place.size + len(whole))


def each_record(path: Path) -> Iterator[Record]:
    """The same, one after the other: a long journal is folded without all its records in memory."""
    return _records(_content(path), str(path))


def _new(path: Path) -> int:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    sync_folder(path.parent)
    return file


def _content(path: Path) -> bytes:
    try:
        return read_plain(path, MOST_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"the journal {path} can't be read: {error.strerror}", remedy="Restore the file from a copy.")


def _last_checksum(whole: bytes) -> str:
    """The checksum of the last line, which was checked; "" where there is none."""
    lines = whole.splitlines()
    return str(json.loads(lines[-1])["checksum"]) if lines else ""


def parse_journal(content: bytes, where: str, events: Mapping[str, type[Any]] = EVENTS) -> tuple[Record, ...]:
    """The same for a journal's bytes; `where` names them in errors."""
    return tuple(_records(content, where, events))


def _records(
    content: bytes, where: str, events: Mapping[str, type[Any]] = EVENTS, place: JournalPlace = JournalPlace()
) -> Iterator[Record]:
    checksum = place.checksum
    for number, line in enumerate(content.split(b"\n")[:-1], place.seq):
        try:
            record, checksum = checked(line, number, checksum, events)
        except ValueError as error:
            raise UsageError(
                f"{where}:{number + 1}: this line of the journal is not valid: {error}",
                remedy="Restore the file from a copy, or use the version of upgrader that wrote it.",
            ) from error
        yield record
