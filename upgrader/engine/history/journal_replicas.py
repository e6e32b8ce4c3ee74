"""The places that have journals: what each must do, and which of two journals of a run wins.

A journal only grows, so each replica is a prefix of the longest one. They diverge where a machine died with records
that no replica had yet, and another machine resumed the run: the journal that was resumed more often wins. Where two
machines resumed equally often, neither journal is overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from upgrader.engine.journal.journal_file import JOURNAL, parse_journal
from upgrader.engine.journal.record import Record
from upgrader.errors import JournalError
from upgrader.model.event import RollbackRequested, RunResumed

__all__ = ["JournalReplica", "LocalJournals", "Source", "check_grown", "is_run", "progress", "sorted_runs"]

_RUN = re.compile(r"\d{8}T\d{6}-[A-Za-z0-9]([A-Za-z0-9._-]{0,44}[A-Za-z0-9])?")


class Source(Protocol):
    """One place that journals can be read from. Every method raises UpgraderError when it is unreachable."""

    @property
    def place(self) -> str:
        """Its name, as in `the cluster`."""
        ...

    def names(self) -> tuple[str, ...]:
        """The runs whose journals it has, oldest first."""
        ...

    def read(self, run: str) -> bytes | None:
        """A run's journal; None when it has none. Raises JournalError for one that can't be unpacked."""
        ...


class JournalReplica(Source, Protocol):
    """One place outside this machine that keeps journals."""

    def write(self, run: str, content: bytes) -> None:
        """Store a run's journal, replacing the old one. Raises JournalError where another machine has resumed since."""
        ...

    def remove(self, run: str) -> None:
        """Delete a run's journal; one that isn't there is fine."""
        ...


class LocalJournals:
    """This machine's cluster folder, for reading only: the Journal itself writes there."""

    place = "this folder"

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def names(self) -> tuple[str, ...]:
        try:
            found = [path.name for path in self._runs.iterdir()]  # glob() takes a folder that can't be read for empty
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise JournalError(f"{self._runs} can't be read: {error.strerror}") from error
        return sorted_runs(found)

    def read(self, run: str) -> bytes | None:
        path = self._runs / run / JOURNAL
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise JournalError(f"{path} can't be read: {error.strerror}") from error


def is_run(name: str) -> bool:
    """Whether this is a run's name. It becomes a path on several machines, so nothing else is accepted."""
    return _RUN.fullmatch(name) is not None


def sorted_runs(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(is_run, names)))


def progress(records: Sequence[Record]) -> tuple[int, int]:
    """How far a journal goes, for comparison: how often the run was resumed, then its length.

    Only the holder of the cluster's lock resumes a run, so what another machine wrote past that point is outdated,
    however long it is.
    """
    return sum(isinstance(record.event, RunResumed | RollbackRequested) for record in records), len(records)


def check_grown(before: bytes, content: bytes, place: str) -> None:
    """Never replace what another machine has written since."""
    if content.startswith(before):
        return
    (theirs, _), (ours, _) = (
        progress(parse_journal(each, where)) for each, where in ((before, place), (content, "this run's folder"))
    )
    if theirs >= ours:
        raise JournalError(
            f"{place} has a different journal of this run: another machine has resumed it",
            remedy="Check what that machine did, with `upgrader status` there. Only one machine may continue a run.",
        )
