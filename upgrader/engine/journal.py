"""The journal: what a run did, one JSON line for each event, on disk before the next thing happens.

A line is `{"schema": 1, "seq": N, "time": "…Z", "type": "StepStarted", "data": {…}}`. `seq` counts from 0 without
gaps. A crash can tear the last line only, and readers ignore that one line; anything else that can't be read is
refused by name, for a journal that is partly believed is worse than none.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from upgrader.errors import UsageError
from upgrader.model.event import Event, GateLooked
from upgrader.ports import Clock

__all__ = ["Journal", "Record", "read_journal"]

SCHEMA = 1


@dataclass(frozen=True)
class Record:
    """One line of a journal."""

    seq: int
    time: datetime
    type: str
    data: dict[str, Any]


class Journal:
    """A Reporter that writes events to `journal.jsonl` and returns only when they are on disk."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Start a new journal (mode 0600); raises FileExistsError where there is one already."""
        self._clock = clock
        self._seq = 0
        self._seen: dict[tuple[str, str], tuple[str, str]] = {}
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def emit(self, event: Event) -> None:
        if isinstance(event, GateLooked) and not self._news(event):
            return
        record = {
            "schema": SCHEMA,
            "seq": self._seq,
            "time": self._clock.now().isoformat().replace("+00:00", "Z"),
            "type": type(event).__name__,
            "data": dataclasses.asdict(event),
        }
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        os.write(self._file, line)
        os.fsync(self._file)
        self._seq += 1

    def close(self) -> None:
        """Close the file; nothing can be written after that."""
        os.close(self._file)

    def _news(self, event: GateLooked) -> bool:
        """A gate looks every second; only a new answer is worth a line."""
        key, answer = (event.step, event.gate), (event.verdict.kind.value, event.verdict.reason)
        if self._seen.get(key) == answer:
            return False
        self._seen[key] = answer
        return True


def read_journal(path: Path) -> tuple[Record, ...]:
    """Every record of a journal. Raises UsageError naming file and line where one is damaged."""
    return tuple(_records(path))


def _records(path: Path) -> Iterator[Record]:
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1]):
        try:
            fields = json.loads(line)
            record = Record(fields["seq"], datetime.fromisoformat(fields["time"]), fields["type"], fields["data"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{path}:{number + 1}: this line of the journal is damaged ({error})",
                remedy="Restore the file from a copy; a journal is never guessed at.",
            ) from error
        if fields.get("schema") != SCHEMA or record.seq != number:
            raise UsageError(
                f"{path}:{number + 1}: expected record {number} of schema {SCHEMA}, found record {record.seq} "
                f"of schema {fields.get('schema')}",
                remedy="Use the version of upgrader that wrote it, or restore the file from a copy.",
            )
        yield record
