"""`upgrader run --resume`: whether there is an upgrade to be continued before a new one is planned."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from upgrader.app.resumable import built_on, newest_upgrade
from upgrader.app.saved_plans import read_plan
from upgrader.app.wiring import open_session
from upgrader.config.load import Overrides, load_settings
from upgrader.engine.history.run_discovery import DiscoveredRun, DiscoveredRuns
from upgrader.errors import Blocked
from upgrader.model.version import KubernetesVersion

__all__ = [
    "NONE_BEFORE",
    "interrupted_upgrade",
    "known_to_campaign",
    "newest_without_end",
    "refuse_newer",
    "refuse_other_target",
]

NONE_BEFORE = "none"
"""What is passed for a run that no other one precedes."""


def interrupted_upgrade(
    folder: Path, notify: Callable[[str], None], after: str | None = None, target: KubernetesVersion | None = None
) -> str:
    """The newest upgrade's name where it has no end, wherever its journal is; "" where it has one, or there is none.

    It may still be running on another machine: `resume` takes the cluster's lock first, which shows that. Raises
    Blocked where none is known, but one may be in a place that couldn't be read; and where a run to `target` was to
    follow the run `after` ("none": to be the first), but a newer upgrade has ended.
    """
    with open_session(folder) as session:
        found = session.find_runs()
        told = known_to_campaign(found, session.find_brief_runs()) if after is not None else None
    for problem in found.problems:
        notify(problem)
    name = newest_without_end(found)
    if not name and found.may_hide:
        raise Blocked(
            "not every journal can be read, so an upgrade may have been interrupted; no new one was started: "
            f"{'; '.join(found.may_hide)}",
            remedy="Make them readable, and run the same command again. If you know that no upgrade was interrupted, "
            "start a new one: upgrader run --new",
        )
    if told is None or name:
        return name
    newest = newest_upgrade(told)
    # One that has only reached a version on the way to the target is continued.
    if newest and not (newest.state.outcome == "succeeded" and newest.state.target != target):
        refuse_newer(newest, told, after)
    return ""


def known_to_campaign(found: DiscoveredRuns, brief: DiscoveredRuns) -> DiscoveredRuns:
    """Those that a campaign may know of, which has found `brief`: it asks no controller, which may have runs of before
    a restore.
    """
    known = {run.name for run in brief.runs} | set(brief.damaged)
    return replace(found, runs=tuple(run for run in found.runs if run.name in known))


def refuse_newer(ended: DiscoveredRun, found: DiscoveredRuns, after: str | None) -> None:
    """Raise Blocked for a run that has ended and is newer than `after` ("none": than no run; None: not asked): a Job
    that is started again has run it already, or another run has come first.

    `found` has what is here and in the cluster, as the campaign that names `after` knows it.
    """
    if after is None:
        return
    before, names = "" if after == NONE_BEFORE else after, [run.name for run in found.runs]
    # Their order tells, whatever clocks say; only where `after` is gone, the times in their names have to.
    if names.index(ended.name) > names.index(before) if before in names else ended.name > before:
        raise Blocked(
            f"run {ended.name} of this cluster has ended ({ended.state.result}) since this run was requested; "
            "nothing was changed",
            remedy=f"See how it ended: upgrader report {ended.name}. To run the cluster again: upgrader fleet retry "
            "CLUSTER",
        )


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
