"""A journal's file, and what its lines name, unchecked.

For code that shows names and decides nothing by them: a shell that completes a word waits for each import, and the
events' classes take longer than all else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.config.plain_file import open_plain
from upgrader.engine.journal import read_schema_2
from upgrader.engine.journal.older_names import with_new_names
from upgrader.model.run_kind import RunKind

__all__ = ["JOURNAL", "MOST_BYTES", "Glance", "first_line", "glance", "outcome"]

JOURNAL = "journal.jsonl"
"""The file's name in a run's folder."""
MOST_BYTES = 32 * 2**20
"""Far more than a run of any length writes."""

_TAIL_BYTES = 64 * 1024
"""More than how a run ended takes, with its reason."""
_AGAIN = ("RunStarted", "RunResumed", "RollbackRequested")
_SOUGHT = tuple(
    f'"type":"{name}"'.encode() for name in (*_AGAIN, "RollbackAsked", "StepStarted", "StepEnded", "RunEnded")
)
"""Of a run on many nodes, most lines are of gates."""


@dataclass(frozen=True)
class Glance:
    """What a journal names, without a look at whether it is valid."""

    upgrade: bool
    planned: tuple[str, ...]
    """The run's steps, in their order."""
    begun: tuple[tuple[str, str], ...]
    """Those of them that were begun, or failed before that: (name, summary)."""


def first_line(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """A journal's first line with its end, or as much of it as there is. The rest isn't read. Raises OSError."""
    with open_plain(path) as file:
        return file.readline(most_bytes)


def glance(path: Path) -> Glance:
    """Raises OSError, and ValueError for what is not a journal."""
    with open_plain(path) as file:
        content = file.read(MOST_BYTES)
    started, begun = dict[str, Any](), dict[str, str]()
    for name, data in _events(content.split(b"\n")[:-1]):
        if name == "RunStarted":
            started, begun = data, {}
        elif name in ("StepStarted", "StepEnded"):
            begun.setdefault(str(data.get("step")), str(data.get("summary") or ""))
    if not started:
        raise ValueError(f"{path} is not the journal of a run")
    upgrade = started.get("kind") == RunKind.UPGRADE.value
    return Glance(upgrade, tuple(map(str, started.get("steps") or ())), tuple(begun.items()))


def outcome(path: Path) -> str:
    """How the run ended, `interrupted` if it didn't; only the end of the file is read. Raises OSError, and ValueError
    for what is not a journal.
    """
    with open_plain(path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        *lines, _ = file.read(_TAIL_BYTES).split(b"\n")
    found = "interrupted"
    for name, data in _events(lines[size > _TAIL_BYTES :]):
        if name == "RunEnded":
            found = str(data.get("outcome"))
        elif name in _AGAIN:
            found = "interrupted"
    return found


def _events(lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The types and data of those that are sought."""
    for line in lines:
        if not line.startswith(b"{"):
            raise ValueError("it is not a JSON object")
        if not any(sought in line for sought in _SOUGHT):
            continue
        fields = json.loads(line)
        name, data = str(fields.get("type")), fields.get("data")
        if fields.get("schema") == read_schema_2.SCHEMA:
            name, data = read_schema_2.upgraded(name, data)
        if isinstance(data, dict):
            yield name, with_new_names(data)
