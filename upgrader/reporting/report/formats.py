"""The forms of a report, and their files in a run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from upgrader.engine.journal.atomic import write_atomic
from upgrader.engine.state.report import report_json
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ConfigError, JournalError
from upgrader.gates.availability.series_file import SERIES, read_series
from upgrader.model.availability_series import NO_SERIES, AvailabilitySeries
from upgrader.rendering import BUILT_IN, Templates
from upgrader.reporting.report.html import report_html
from upgrader.reporting.report.junit import report_junit
from upgrader.reporting.report.markdown import report_markdown
from upgrader.reporting.report.plan_diffs import DIFFS, NO_DIFFS, PlanDiffs, read_diffs

__all__ = ["FILES", "Format", "report_text", "write_reports"]

Format = Literal["html", "json", "junit", "markdown"]

FILES: Mapping[Format, str] = {
    "json": "report.json",
    "html": "report.html",
    "junit": "junit.xml",
    "markdown": "report.md",
}
"""Their names. The JSON is written first: programs read it, and the others contain no more."""


def report_text(
    state: RunState,
    form: Format,
    *,
    running: bool = False,
    redacted: bool = False,
    templates: Templates = BUILT_IN,
    problem: str = "",
    series: AvailabilitySeries = NO_SERIES,
    diffs: PlanDiffs = NO_DIFFS,
) -> str:
    """The report of a run in one form. `running`: a process works on it now. `redacted`: as `redacted.py` made it.

    `series` has the measurements over time, which contain no names. `diffs` are in the page alone, and not if names are
    replaced, as they are full of names that can't be recognized.

    Raises ConfigError for a template of the user's that can't be rendered; `problem` tells of one on the page.
    """
    forms: dict[Format, Callable[[], str]] = {
        "json": lambda: json.dumps(report_json(state, series.summary()), indent=2) + "\n",
        "html": lambda: report_html(
            state,
            running=running,
            redacted=redacted,
            templates=templates,
            problem=problem,
            series=series,
            diffs=NO_DIFFS if redacted else diffs,
        ),
        "junit": lambda: report_junit(state, running=running, templates=templates),
        "markdown": lambda: report_markdown(state, running=running),
    }
    # A journal keeps what was no UTF-8 as lone surrogates, which no file can have.
    return forms[form]().encode(errors="replace").decode()


def write_reports(
    folder: Path, state: RunState, *, journal: str, running: bool = False, templates: Templates = BUILT_IN
) -> None:
    """Write all of them into a run's folder (mode 0600); `journal` is the name of what they are made from.

    If a user's template can't be rendered, the page is made without it, and says so. Raises JournalError if a file
    can't be written; the run's outcome is in its message.
    """
    series, diffs = read_series(folder / SERIES), read_diffs(folder / DIFFS)
    for form, name in FILES.items():
        path = folder / name
        try:
            text = report_text(state, form, running=running, templates=templates, series=series, diffs=diffs)
        except ConfigError as error:
            text = report_text(state, form, running=running, problem=error.message, series=series, diffs=diffs)
        content = text.encode()
        try:
            write_atomic(path, content)
        except OSError as error:
            raise JournalError(
                f"{path} can't be written: {error.strerror}; the run's outcome: {state.result}",
                remedy=f"{journal} in the same folder has all that the report would contain.",
            ) from error
