"""`report.html`: one file that needs no network and runs no script.

Its Content-Security-Policy allows only its own style sheet, by its hash: foreign content, such as a log, is escaped,
and could not run even if it weren't.
"""

from __future__ import annotations

from upgrader import __version__
from upgrader.engine.state.run_state import RunState
from upgrader.model.availability_series import NO_SERIES, AvailabilitySeries
from upgrader.rendering import BUILT_IN, Templates
from upgrader.reporting.report.plan_diffs import NO_DIFFS, PlanDiffs
from upgrader.reporting.report.view import view_of

__all__ = ["report_html"]


def report_html(
    state: RunState,
    *,
    running: bool = False,
    redacted: bool = False,
    templates: Templates = BUILT_IN,
    problem: str = "",
    series: AvailabilitySeries = NO_SERIES,
    diffs: PlanDiffs = NO_DIFFS,
) -> str:
    """The page of a run. `running`: a process works on it now. `redacted`: names were replaced (`redacted.py`).
    `problem`: why the user's template isn't used. `series`: the data of its curves. `diffs`: the planned changes of the
    run.
    """
    style, source = templates.stylesheet("report/report.css")
    return templates.render(
        "report/report.html.j2",
        view=view_of(state, running=running, series=series),
        style=style,
        style_source=source,
        version=__version__,
        redacted=redacted,
        problem=problem,
        diffs=diffs,
    )
