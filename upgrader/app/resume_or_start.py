"""`upgrader run --resume`: whether there is an upgrade to be continued before a new one is planned."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from upgrader.app.resumable import built_on, newest_upgrade
from upgrader.app.saved_plans import read_plan
from upgrader.app.wiring import open_session
from upgrader.config.load import Overrides, load_settings
from upgrader.engine.history.run_discovery import DiscoveredRuns
from upgrader.errors import Blocked
from upgrader.model.version import KubernetesVersion

__all__ = ["interrupted_upgrade", "newest_without_end", "refuse_other_target"]


def interrupted_upgrade(folder: Path, notify: Callable[[str], None]) -> str:
    """The newest upgrade's name where it has no end, wherever its journal is; "" where it has one, or there is none.

    It may still be running on another machine: `resume` takes the cluster's lock first, which shows that. Raises
    Blocked where none is known, but one may be in a place that couldn't be read.
    """
    with open_session(folder) as session:
        found = session.find_runs()
    for problem in found.problems:
        notify(problem)
    name = newest_without_end(found)
    if not name and found.may_hide:
        raise Blocked(
            "not every journal can be read, so an upgrade may have been interrupted; no new one was started: "
            f"{'; '.join(found.may_hide)}",
            remedy="Make them readable, and run this again. If you know that no upgrade was interrupted, start a new "
            "one: upgrader run --new",
        )
    return name


def newest_without_end(found: DiscoveredRuns) -> str:
    """The same, of runs that were found. One on which the changes of a later run build has its end there."""
    newest = newest_upgrade(found)
    if newest is None or newest.state.started is None or newest.state.outcome not in (None, "interrupted"):
        return ""
    return "" if built_on(newest, found) else newest.name


def refuse_other_target(
    folder: Path, reached: KubernetesVersion | None, target: KubernetesVersion | None, plan_file: Path | None
) -> None:
    """Raise Blocked where the resumed upgrade was on the way to another version than the one that is wanted now."""
    if plan_file is not None:
        wanted = read_plan(plan_file).target
    else:
        wanted = load_settings(folder, os.environ, Overrides(target=target)).target
    if wanted != reached:
        raise Blocked(
            f"the interrupted upgrade to {reached} was completed; the upgrade to {wanted} was not started",
            remedy="Plan it from the cluster's current state: upgrader plan",
        )
