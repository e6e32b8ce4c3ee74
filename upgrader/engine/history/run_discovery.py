"""Finds runs wherever their journals are: in this folder, in the cluster, on the controllers.

Of a run's copies the one that goes furthest (`copies.progress`) and can be believed wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from upgrader.engine.history.journal_replicas import Source, progress
from upgrader.engine.history.past_runs import PastRun
from upgrader.engine.journal.atomic import write_atomic
from upgrader.engine.journal.journal_file import JOURNAL, parse_journal
from upgrader.engine.journal.record import Record
from upgrader.engine.state.fold import fold
from upgrader.engine.state.run_state import RunState
from upgrader.errors import JournalError, UpgraderError

__all__ = ["DiscoveredRun", "DiscoveredRuns", "bring_home", "find_runs", "with_remote_runs"]

_NEWEST = 50
"""How many runs are looked at in each place."""


@dataclass(frozen=True)
class _Copy:
    place: str
    run: str
    content: bytes
    """Whole lines only: a crash tears the last one."""
    records: tuple[Record, ...]


@dataclass(frozen=True)
class DiscoveredRun:
    """A run, by the most complete copy of its journal."""

    name: str
    place: str
    """Where that copy is."""
    content: bytes
    records: tuple[Record, ...]
    problem: str = ""
    """Why it must not be gone on with: two machines did so already."""

    @cached_property
    def state(self) -> RunState:
        """How far the run got, as far as is known."""
        return fold(self.records)


@dataclass(frozen=True)
class DiscoveredRuns:
    """What was found, oldest run first, and which places or copies could not be read."""

    runs: tuple[DiscoveredRun, ...]
    problems: tuple[str, ...]

    def get(self, name: str) -> DiscoveredRun | None:
        """The run of that name."""
        return next((run for run in self.runs if run.name == name), None)


def find_runs(places: Sequence[Source]) -> DiscoveredRuns:
    """Look in all places at once; of copies that are alike, the first place's counts.

    A place that can't be reached and a copy that can't be believed are told, and hide nothing that another place has.
    """
    with ThreadPoolExecutor(len(places) or 1) as pool:
        looked = list(pool.map(_look, places))
    copies = [copy for found, _ in looked for copy in found]
    names = sorted({copy.run for copy in copies})
    runs = tuple(_merged(name, [copy for copy in copies if copy.run == name]) for name in names)
    return DiscoveredRuns(runs, tuple(problem for _, problems in looked for problem in problems))


def with_remote_runs(here: Sequence[PastRun], found: DiscoveredRuns, runs: Path) -> tuple[PastRun, ...]:
    """The runs of this folder and those found elsewhere, oldest first, each as the copy tells it that goes furthest."""
    known = {run.name: run for run in here}
    for other in found.runs:
        mine = known.get(other.name)
        if mine is None or mine.problem or _behind(mine.folder / JOURNAL, other):
            known[other.name] = PastRun(runs / other.name, other.state, other.problem, other.place)
    return tuple(known[name] for name in sorted(known))


def _behind(journal: Path, other: DiscoveredRun) -> bool:
    """Whether a sound journal knows less than another copy of it."""
    content = journal.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    return whole != other.content and progress(parse_journal(whole, str(journal))) < progress(other.records)


def bring_home(found: DiscoveredRun, runs: Path) -> Path:
    """The run's folder below `runs`, with that journal in it, so that it can be read and gone on with here.

    Raises JournalError where the run must not be gone on with, or the folder can't be written.
    """
    if found.problem:
        raise JournalError(
            f"run {found.name} can't be gone on with: {found.problem}",
            remedy="Look at both with `upgrader status` on the machines that they come from; then run again.",
        )
    folder = runs / found.name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / JOURNAL
        before = path.read_bytes() if path.exists() else b""
        if not found.content.startswith(before[: before.rfind(b"\n") + 1]):
            # Damaged, or written by a run that another machine has gone on with: somebody may want to read it.
            path.replace(path.with_name(f"{JOURNAL}.superseded"))
        if before != found.content:
            write_atomic(path, found.content)
    except OSError as error:
        raise JournalError(
            f"the journal of run {found.name} can't be written to {folder}: {error.strerror}",
            remedy="Make room, or mend the folder's permissions.",
        ) from error
    return folder


def _look(place: Source) -> tuple[list[_Copy], list[str]]:
    try:
        names = place.names()[-_NEWEST:]
    except UpgraderError as error:
        return [], [f"{place.place} could not be looked into for runs: {error.message}"]
    copies, problems = [], []
    for name in names:
        try:
            content = place.read(name)
            if content is not None:
                whole = content[: content.rfind(b"\n") + 1]
                copies.append(_Copy(place.place, name, whole, parse_journal(whole, f"{place.place}: {name}")))
        except UpgraderError as error:
            problems.append(error.message)
    return copies, problems


def _merged(name: str, copies: list[_Copy]) -> DiscoveredRun:
    best = max(copies, key=lambda copy: progress(copy.records))
    rivals = (copy for copy in copies if progress(copy.records)[0] == progress(best.records)[0])
    other = next((copy for copy in rivals if not best.content.startswith(copy.content)), None)
    problem = (
        f"its journals differ in {best.place} and in {other.place}: two machines have gone on with it" if other else ""
    )
    return DiscoveredRun(name, best.place, best.content, best.records, problem)
