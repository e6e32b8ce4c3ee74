"""`fleet.html`: the page of a campaign, which needs no network and runs no script, as a run's `report.html`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from upgrader import __version__
from upgrader.fleet.reports.attempts import Attempt
from upgrader.fleet.reports.view import fleet_view
from upgrader.fleet.use_cases import FleetStatus
from upgrader.rendering import BUILT_IN, Templates

__all__ = ["fleet_html"]


def fleet_html(
    status: FleetStatus,
    attempts: Mapping[str, Sequence[Attempt]],
    now: datetime,
    *,
    page: Path | None = None,
    templates: Templates = BUILT_IN,
    problem: str = "",
) -> str:
    """The page of a campaign that was begun. `page`: the folder that it is written to, where links begin; None: it has
    no links. `problem`: why the user's template isn't used. Raises ConfigError for a template of the user's that can't
    be rendered.
    """
    style, source = templates.stylesheet("report/report.css")
    return templates.render(
        "fleet/fleet.html.j2",
        view=fleet_view(status, attempts, page, now),
        style=style,
        style_source=source,
        version=__version__,
        problem=problem,
    )
