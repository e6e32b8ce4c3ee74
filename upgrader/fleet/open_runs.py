"""Runs without an end that clusters have before a campaign begins: none may be forgotten."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from upgrader.app.resumable import builds_on
from upgrader.config.yaml_document import typed
from upgrader.engine.history.past_runs import PastRun, newest_of_kind, past_runs
from upgrader.errors import Blocked
from upgrader.fleet.model import Fleet, FleetCluster, Goal
from upgrader.fleet.state import CampaignState
from upgrader.model.first_few import first_few
from upgrader.model.run_kind import RunKind

__all__ = ["built_on", "how_to_end", "open_run", "refuse_open_runs"]


def refuse_open_runs(
    fleet: Fleet, before: Fleet | None, state: CampaignState, at_work: Callable[[Fleet, FleetCluster], str]
) -> None:
    """Raise Blocked that names each cluster whose newest upgrade has no end, or whose journal doesn't say; after a
    campaign that finalizes, also its newest finalize.

    Asked are the clusters of the new campaign, and those of the campaign `before`, which is in `state`, unless the new
    one excludes them by name. `at_work` says of a cluster of either whether a process may be changing it.
    """
    clusters = [(each_of, each) for each_of in (before, fleet) if each_of for each in reversed(each_of.clusters)]
    folders = {each.folder: (each_of, each) for each_of, each in clusters if each.name not in fleet.excluded}
    active = {each.name for each in state.clusters.values() if each.active}
    goals = [Goal(RunKind.UPGRADE, fleet.target), *([before.goal] if before and before.goal.finalizes else [])]
    kind = before.goal.kind if before else None
    found = {
        each.name: (how_to_end(folder, goal), why)
        for folder, (each_of, each) in folders.items()
        for goal in goals
        if (
            why := open_run(
                folder, partial(at_work, each_of, each), goal.kind is kind and each.name in active, goal.kind
            )
        )
    }
    if not found:
        return
    first = next(reversed(found))
    raise Blocked(
        "clusters have runs that have not ended: "
        + first_few([f"{name} ({why})" for name, (_, why) in reversed(found.items())])
        + "; no campaign was started",
        remedy=f"End each first: {found[first][0]}; or use `upgrader fleet run` with the files of its "
        "campaign. Or name the cluster in `exclude`.",
    )


def how_to_end(folder: Path, goal: Goal | None = None) -> str:
    """The commands that end the run which `open_run` names: an upgrade, or one with this `goal`."""
    to_end = goal.to_end if goal else "resume, or rollback"
    return f"upgrader -C {typed(folder)} {to_end}; if it builds on another run, its own command"


def open_run(folder: Path, at_work: Callable[[], str], active: bool = False, kind: RunKind = RunKind.UPGRADE) -> str:
    """The newest upgrade, or run of another `kind`, of a cluster folder if it has no end, or why that isn't known; ""
    where there is none. One on which the changes of a later run build has its end there, as for `run --resume`, once
    that run works no more: it has an end, or was killed, so that no process is `at_work` on the cluster. With `active`,
    a campaign has begun one.
    """
    run = newest_of_kind(folder / "runs", kind)
    if run is None:
        return "its campaign has started a run that has no journal" if active else ""
    if run.problem:
        return f"the outcome of run {run.name} is unknown: {run.problem}"
    if run.state.started is None or run.outcome != "interrupted":
        return ""
    later = built_on(run)
    if later is None:
        return f"run {run.name}"
    if later.outcome != "interrupted" or not (why := at_work()):
        return ""
    return f"run {later.name}, which builds on run {run.name}: {why}"


def built_on(run: PastRun) -> PastRun | None:
    """The newest run of its cluster folder whose changes build on this one's, so that this one can't be continued any
    more; None for none. It may still be in progress.
    """
    runs = past_runs(run.folder.parent)
    later = runs[[each.name for each in runs].index(run.name) + 1 :]
    return next((each for each in reversed(later) if builds_on(each.state, run.state)), None)
