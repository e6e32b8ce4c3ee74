"""Finds runs wherever their journals are: in this folder, in the cluster, on the controllers.

Of a run's valid journals, the one with the most progress (`journal_replicas.progress`) wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from upgrader.engine.history.journal_replicas import Source, progress
from upgrader.engine.history.past_runs import PastRun
from upgrader.engine.history.run_order import in_order
from upgrader.engine.journal.atomic import write_atomic
from upgrader.engine.journal.journal_file import JOURNAL, parse_journal
from upgrader.engine.journal.record import Record
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.run_state import RunState
from upgrader.errors import JournalError, UpgraderError

__all__ = ["DiscoveredRun", "DiscoveredRuns", "bring_home", "find_runs", "with_remote_runs"]

_NEWEST = 50
"""How many runs are read in each place."""


@dataclass(frozen=True)
class _Copy:
    place: str
    run: str
    content: bytes
    """Complete lines only: a crash can tear the last one."""
    records: tuple[Record, ...]


@dataclass(frozen=True)
class DiscoveredRun:
    """A run, from the most complete copy of its journal."""

    name: str
    place: str
    """Where that copy is."""
    content: bytes
    records: tuple[Record, ...]
    problem: str = ""
    """Why it must not be continued: two machines have resumed it."""

    @cached_property
    def state(self) -> RunState:
        """How far the run got, as far as is known."""
        return fold(self.records)


@dataclass(frozen=True)
class DiscoveredRuns:
    """What was found, oldest run first, and which places or copies could not be read."""

    runs: tuple[DiscoveredRun, ...]
    problems: tuple[str, ...]
    may_hide: tuple[str, ...] = ()
    """Those of the problems behind which a run may be that was found nowhere else."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Those of them that are about one run, by its name."""

    def get(self, name: str) -> DiscoveredRun | None:
        """The run of that name."""
        return next((run for run in self.runs if run.name == name), None)


def find_runs(places: Sequence[Source]) -> DiscoveredRuns:
    """Search all places at once; of equal copies, the first place's counts.

    Unreachable places and copies that are not valid are reported, and hide nothing that another place has.
    """
    with ThreadPoolExecutor(len(places) or 1) as pool:
        results = list(pool.map(_search, places))
    copies = [copy for result in results for copy in result.copies]
    names = {copy.run for copy in copies}
    merged = [_merged(name, [copy for copy in copies if copy.run == name]) for name in names]
    runs = in_order(merged, name=lambda run: run.name, sequence=lambda run: run.state.sequence)
    problems = [problem for result in results for problem in result.problems]
    may_hide = tuple(problem for run, problem in problems if run not in names)
    damaged = {run: problem for run, problem in problems if run is not None and run not in names}
    return DiscoveredRuns(tuple(runs), tuple(problem for _, problem in problems), may_hide, damaged)


def with_remote_runs(here: Sequence[PastRun], found: DiscoveredRuns, runs: Path) -> tuple[PastRun, ...]:
    """The runs of this folder and those found elsewhere, oldest first, each from the copy with the most progress."""
    known = {run.name: run for run in here}
    for other in found.runs:
        mine = known.get(other.name)
        if mine is None or mine.problem or _behind(mine.folder / JOURNAL, other):
            known[other.name] = PastRun(runs / other.name, other.state, other.problem, other.place)
    return tuple(in_order(known.values(), name=lambda run: run.name, sequence=lambda run: run.state.sequence))


def _behind(journal: Path, other: DiscoveredRun) -> bool:
    """Whether a valid journal has less than another copy of it."""
    content = journal.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    return whole != other.content and progress(parse_journal(whole, str(journal))) < progress(other.records)


def bring_home(found: DiscoveredRun, runs: Path) -> Path:
    """The run's folder below `runs`, with that journal in it, so that it can be read and continued here.

    Raises JournalError where the run must not be continued, or the folder can't be written.
    """
    if found.problem:
        raise JournalError(
            f"run {found.name} can't be continued: {found.problem}",
            remedy="Check both with `upgrader status` on the machines that they come from, then run the same command "
            "again.",
        )
    folder = runs / found.name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / JOURNAL
        before = path.read_bytes() if path.exists() else b""
        if not found.content.startswith(before[: before.rfind(b"\n") + 1]):
            # Damaged, or outdated since another machine resumed the run: kept for inspection.
            path.replace(path.with_name(f"{JOURNAL}.superseded"))
        if before != found.content:
            write_atomic(path, found.content)
    except OSError as error:
        raise JournalError(
            f"the journal of run {found.name} can't be written to {folder}: {error.strerror}",
            remedy="Free disk space, or fix the folder's permissions.",
        ) from error
    return folder


@dataclass(frozen=True)
class _Searched:
    copies: tuple[_Copy, ...]
    problems: tuple[tuple[str | None, str], ...]
    """Each with the run whose journal it is about; None: it may be about any run."""


def _search(place: Source) -> _Searched:
    try:
        names = place.names()[-_NEWEST:]
    except UpgraderError as error:
        return _Searched((), ((None, f"{place.place} could not be searched for runs: {error.message}"),))
    copies, problems = list[_Copy](), list[tuple[str | None, str]]()
    for name in names:
        try:
            content = place.read(name)
            if content is not None:
                whole = content[: content.rfind(b"\n") + 1]
                copies.append(_Copy(place.place, name, whole, parse_journal(whole, f"{place.place}: {name}")))
        except UpgraderError as error:
            problems.append((name, error.message))
    return _Searched(tuple(copies), tuple(problems))


def _merged(name: str, copies: list[_Copy]) -> DiscoveredRun:
    best = max(copies, key=lambda copy: progress(copy.records))
    rivals = (copy for copy in copies if progress(copy.records)[0] == progress(best.records)[0])
    other = next((copy for copy in rivals if not best.content.startswith(copy.content)), None)
    problem = f"its journals in {best.place} and {other.place} differ: two machines have resumed it" if other else ""
    return DiscoveredRun(name, best.place, best.content, best.records, problem)
