"""The runs of a cluster folder, and how each ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.engine.history.run_folders import run_folders, sequence_of
from upgrader.engine.journal.journal_file import JOURNAL, each_record
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.report import report_json
from upgrader.engine.state.run_state import RunState
from upgrader.errors import UsageError
from upgrader.model.run_kind import RunKind

__all__ = [
    "PastRun",
    "highest_sequence",
    "newest_name",
    "newest_run",
    "newest_of_kind",
    "past_run",
    "past_runs",
    "run_named",
]


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
    return tuple(map(past_run, run_folders(runs)))


def newest_name(runs: Path) -> str:
    """The name of the newest run; "" when there is none. No journal is read but for its first line."""
    folders = run_folders(runs)
    return folders[-1].name if folders else ""


def newest_run(runs: Path) -> PastRun | None:
    """The newest run; None when there is none."""
    folders = run_folders(runs)
    return past_run(folders[-1]) if folders else None


def newest_of_kind(runs: Path, kind: RunKind = RunKind.UPGRADE, *, after: str = "", of: str = "") -> PastRun | None:
    """The newest run of this kind, or whose journal is not valid, of those `after` this run, if it is there; with `of`,
    one of this campaign. None when there is none. No older journal is read.
    """
    folders = run_folders(runs)
    older = next((number for number, folder in enumerate(folders, 1) if folder.name == after), 0)
    found = map(past_run, reversed(folders[older:]))

    def fits(state: RunState) -> bool:
        return bool(state.run) and state.kind is kind and of in ("", state.campaign)

    return next((run for run in found if run.problem or fits(run.state)), None)


def run_named(runs: Path, name: str) -> PastRun | None:
    """The run of that name, without a look into any other journal; None where there is none."""
    return next((past_run(folder) for folder in run_folders(runs) if folder.name == name), None)


def highest_sequence(runs: Path) -> int:
    """The highest number of a run in a cluster's `runs` folder; 0 when none has one."""
    return max(map(sequence_of, run_folders(runs)), default=0)


def past_run(folder: Path) -> PastRun:
    """The run of this folder."""
    try:
        return PastRun(folder, fold(each_record(folder / JOURNAL)))
    except UsageError as error:
        return PastRun(folder, RunState(), error.message)
