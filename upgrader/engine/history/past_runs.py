"""The runs of a cluster folder: how each ended, and which of them may be removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.engine.history.run_folders import run_folders, sequence_of
from upgrader.engine.journal.journal_file import JOURNAL, each_record
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.report import report_json
from upgrader.engine.state.run_state import RunState
from upgrader.errors import UsageError

__all__ = [
    "PastRun",
    "highest_sequence",
    "newest_name",
    "newest_run",
    "newest_upgrade",
    "past_runs",
    "prune",
    "run_named",
    "surplus",
]

_REMOVING = ".removing-"


@dataclass(frozen=True)
class PastRun:
    """A run's folder, and its state from the journal."""

    folder: Path
    state: RunState
    problem: str = ""
    """Why the journal is not valid; `state` is then empty, and what the run did is not known."""
    place: str = ""
    """Where its journal is (`the cluster`, a controller's name), unless it is in the folder itself."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def outcome(self) -> str:
        """As in the report; `unknown` when the journal is not valid."""
        return "unknown" if self.problem else self.state.result

    @property
    def seconds(self) -> float:
        """How long it took; for an interrupted run, the time between its first and its last record."""
        state = self.state
        if state.outcome or state.started is None or state.updated is None:
            return state.seconds
        return (state.updated - state.started).total_seconds()

    def as_json(self, *, running: bool = False) -> dict[str, Any]:
        """Its report, with the fields that need no journal. One that is `running` has no end, and `running` for its
        outcome: its journal alone can't be told from that of a run which was cut off.
        """
        known = {"run": self.name, "outcome": self.outcome, "seconds": self.seconds, "problem": self.problem}
        known["place"] = self.place
        if running:
            known |= {"outcome": "running", "ended": ""}
        return {**report_json(self.state), **known}


def past_runs(runs: Path) -> tuple[PastRun, ...]:
    """All runs in a cluster's `runs` folder, oldest first."""
    return tuple(map(_past_run, run_folders(runs)))


def newest_name(runs: Path) -> str:
    """The name of the newest run; "" when there is none. No journal is read but for its first line."""
    folders = run_folders(runs)
    return folders[-1].name if folders else ""


def newest_run(runs: Path) -> PastRun | None:
    """The newest run; None when there is none."""
    folders = run_folders(runs)
    return _past_run(folders[-1]) if folders else None


def newest_upgrade(runs: Path, *, after: str = "") -> PastRun | None:
    """The newest run that is an upgrade, or whose journal is not valid, of those `after` this run, if it is there; None
    when there is none. No older journal is read.
    """
    folders = run_folders(runs)
    older = next((number for number, folder in enumerate(folders, 1) if folder.name == after), 0)
    found = map(_past_run, reversed(folders[older:]))
    return next((run for run in found if run.problem or run.state.is_upgrade), None)


def run_named(runs: Path, name: str) -> PastRun | None:
    """The run of that name, without a look into any other journal; None where there is none."""
    return next((_past_run(folder) for folder in run_folders(runs) if folder.name == name), None)


def highest_sequence(runs: Path) -> int:
    """The highest number of a run in a cluster's `runs` folder; 0 when none has one."""
    return max(map(sequence_of, run_folders(runs)), default=0)


def prune(runs: Path, keep: int) -> tuple[str, ...]:
    """Remove all but the newest `keep` (≥ 1) runs and the upgrades that are needed; returns the names of the removed.

    See `surplus` for which those are. Only folders with a run's name are touched. Raises UsageError for one that can't
    be removed.
    """
    try:
        return _prune(runs, keep)
    except OSError as error:
        raise UsageError(
            f"{error.filename or runs}, of an old run, can't be removed: {error.strerror}; nothing was changed",
            remedy="Remove it by hand, or raise policy.keepRuns in upgrader.yaml.",
        ) from error


def surplus(names: Sequence[str], state: Callable[[str], RunState], keep: int) -> tuple[str, ...]:
    """The runs that may be removed: all but the newest `keep`, and the upgrades that are still needed.

    Those are the last one, which can be resumed or rolled back, and the last that succeeded, however many runs of
    `recover` and `adopt` came after. `names` are oldest first; `state` is a run's, empty where its journal is invalid.
    """
    old = tuple(names[:-keep])
    if not old:
        return ()
    needed: set[str] = set()
    for name in reversed(names):  # the newest is usually both, so that no other journal is read
        found = state(name)
        succeeded = found.is_upgrade and found.outcome == "succeeded"
        if succeeded or (found.is_upgrade and not needed):
            needed.add(name)
        if succeeded:
            break
    return tuple(name for name in old if name not in needed)


def _prune(runs: Path, keep: int) -> tuple[str, ...]:
    names = [folder.name for folder in run_folders(runs)]
    removed = surplus(names, lambda name: _past_run(runs / name).state, keep)
    old = [runs / name for name in removed]
    for folder in old:
        # Renamed first, so that a crash during the removal leaves no run without a journal.
        folder.rename(folder.with_name(_REMOVING + folder.name))
    for folder in runs.glob(f"{_REMOVING}*"):
        shutil.rmtree(folder)
    return removed


def _past_run(folder: Path) -> PastRun:
    try:
        return PastRun(folder, fold(each_record(folder / JOURNAL)))
    except UsageError as error:
        return PastRun(folder, RunState(), error.message)
