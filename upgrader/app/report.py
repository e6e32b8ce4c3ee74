"""`upgrader report`: makes a run's reports again, from its journal alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.cluster_folder import check_cluster_folder
from upgrader.engine.history.past_runs import PastRun, newest_name, newest_run, run_named
from upgrader.engine.history.run_status import Status, status_of
from upgrader.engine.journal.journal_file import JOURNAL
from upgrader.engine.locks.folder_lock import folder_holder
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ConfigError, UsageError
from upgrader.gates.availability.series_file import SERIES, read_series
from upgrader.model.availability_series import AvailabilitySeries
from upgrader.rendering import Templates
from upgrader.reporting.report.comparison import Comparison, compared
from upgrader.reporting.report.formats import FILES, Format, report_text, write_reports
from upgrader.reporting.report.plan_diffs import DIFFS, PlanDiffs, read_diffs
from upgrader.reporting.report.redacted import redacted

__all__ = ["RunToReport", "compare_runs", "run_to_report"]


@dataclass(frozen=True)
class RunToReport:
    """A run whose journal is valid."""

    folder: Path
    """The cluster's."""
    run: PastRun
    running: bool
    """Whether a process works on it now."""

    def text(self, form: Format, *, redact: bool = False) -> str:
        """Its report in one form; with `redact` without names of hosts and people, and without addresses."""
        state = self._redacted() if redact else self.run.state
        own = Templates.of_user(os.environ)
        series, diffs = read_series(self.run.folder / SERIES), read_diffs(self.run.folder / DIFFS)
        if self.run.place:
            series = AvailabilitySeries(problem=f"{SERIES} is on the machine of the run")
            diffs = PlanDiffs(problem=f"{DIFFS} is on the machine of the run")
        return report_text(
            state, form, running=self.running, redacted=redact, templates=own, series=series, diffs=diffs
        )

    def write(self) -> Path:
        """Make the files in the run's folder again; returns the page's path."""
        if self.run.place:
            raise UsageError(
                f"run {self.run.name} ran on another machine: its journal is in {self.run.place}, but its folder "
                "isn't here",
                remedy="Print the report with `-o html`, or run this in the folder that has the run.",
            )
        own = Templates.of_user(os.environ)
        write_reports(self.run.folder, self.run.state, journal=JOURNAL, running=self.running, templates=own)
        return self.run.folder / FILES["html"]

    def _redacted(self) -> RunState:
        """Only the inventory has the names of all hosts: what is not read would be shown."""
        # Not at the top, as below.
        from upgrader.config.inventory import load_names
        from upgrader.config.load import load_settings

        try:
            hosts = load_names(load_settings(self.folder, os.environ).inventory)
        except ConfigError as error:
            raise UsageError(
                f"host names can't be replaced, because the inventory can't be read: {error.message}",
                remedy=error.remedy,
            ) from error
        return redacted(self.run.state, tuple({name for names in hosts.values() for name in names}))


def run_to_report(folder: Path, name: str | None) -> RunToReport:
    """The run of that name; None means the newest of this folder, or of the cluster where the folder has none.

    Raises UsageError where there is none, or where its journal is not valid.
    """
    check_cluster_folder(folder)
    runs = folder / "runs"
    found = newest_run(runs) if name is None else run_named(runs, name)  # no other journal is read
    status = status_of(folder_holder(folder), found if found and found.name == newest_name(runs) else None)
    if found is None:
        found, status = _anywhere(folder, name)
    if found.problem:
        raise UsageError(
            found.problem, remedy="Restore the file from a copy: a report of a damaged journal might be wrong."
        )
    running = status.state == "running" and status.run is not None and status.run.name == found.name
    return RunToReport(folder, found, running)


def compare_runs(folder: Path, first: str, second: str) -> Comparison:
    """Two runs side by side."""
    return compared(run_to_report(folder, first).run.state, run_to_report(folder, second).run.state)


def _anywhere(folder: Path, name: str | None) -> tuple[PastRun, Status]:
    # Not at the top: what asks a cluster takes a second to import, and the folder nearly always has the run.
    from upgrader.app.status import known_runs

    known = known_runs(folder)
    found = next((run for run in reversed(known.runs) if name in (None, run.name)), None)
    if found is None:
        which = f"no run {name}" if name else "no run in this folder" if known.problem else "no run yet"
        unread = f"; the runs of other machines could not be read: {known.problem}" if known.problem else ""
        raise UsageError(f"there is {which}{unread}", remedy="`upgrader history` lists the runs of this cluster.")
    return found, known.status
