"""A run that exists already: found wherever its journal is, and locked, so that it can be resumed or rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.resumable import built_on, newest_upgrade
from upgrader.app.wiring import Session, open_session
from upgrader.engine.history.run_discovery import DiscoveredRun, DiscoveredRuns, bring_home
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiUnavailable, Blocked, UsageError
from upgrader.model.run_kind import RunKind
from upgrader.preflight.down_controllers import half_left_out, refuse_relabelled

__all__ = ["ExistingRun", "existing_run", "newer_records"]

_NO_WAY_BACK = {
    RunKind.FINALIZE: "ended the emulation",
    RunKind.MIGRATE_STORAGE: "migrated the stored objects",
}
"""Behind a run of these kinds, no older version can be served from the data."""
_SEARCH_AGAIN = (
    "Make these places reachable, or run this command on the machine where the run was started. If the API is down: "
    "`upgrader recover --dry-run`"
)


@dataclass(frozen=True)
class ExistingRun:
    """A run that no other process owns, with its journal in this cluster folder."""

    session: Session
    front_end: FrontEnd
    held: HeldLock
    state: RunState
    folder: Path
    """The run's own folder."""
    others_since: bool = False
    """Whether another run was begun after it, of whatever kind."""
    newest: bool = True
    """Whether it is the newest upgrade, which commands mean that name no run."""


@contextmanager
def existing_run(folder: Path, name: str | None, front_end: FrontEnd, *, take_over: bool) -> Iterator[ExistingRun]:
    """Lock the cluster, and find the run (None: the newest upgrade). Raises UsageError where it can't be continued.

    Its journal is read before the lock of a dead holder is taken, and again under the lock, as it may have grown.
    """
    with front_end.busy(), open_session(folder) as opened, locked_folder(folder):
        session = opened.telling(front_end.doing)
        known = session.find_runs()
        _notify(front_end, known.problems)
        _choose(known, name)
        try:
            with cluster_lock(session, front_end, take_over=take_over) as held:
                found = session.find_runs()
                _notify(front_end, tuple(problem for problem in found.problems if problem not in known.problems))
                run = _choose(found, name)
                _refuse_older(run, found)
                if run.state.unknown:
                    front_end.notify(newer_records(run.state))
                home = bring_home(run, session.settings.folder / "runs")
                since = found.runs[found.runs.index(run) + 1 :]
                newest = not any(each.state.is_upgrade for each in since)
                # As it began: neither leaving a controller out nor its return comes between a run and its end.
                marked = session.as_marked()
                refuse_relabelled(session.tools.kube, marked.left_out.keys())
                _refuse_half_left_out(marked)
                front_end.doing("")
                yield ExistingRun(marked, front_end, held, run.state, home, bool(since), newest)
        except ApiUnavailable as error:
            raise ApiUnavailable(
                error.message,
                remedy="Restore the API with `upgrader recover`, then run the same command again. The run was not "
                "changed.",
            ) from error


def _notify(front_end: FrontEnd, problems: tuple[str, ...]) -> None:
    for problem in problems:
        front_end.notify(problem)


def _choose(found: DiscoveredRuns, name: str | None) -> DiscoveredRun:
    if name is None:
        newest = newest_upgrade(found)
        if newest is None and found.problems:
            raise UsageError("no upgrade was found, but not every place could be searched", remedy=_SEARCH_AGAIN)
        if newest is None:
            raise UsageError("this cluster has no upgrade yet", remedy="Start one with: upgrader run")
        return newest
    run = found.get(name)
    if run is None and found.problems:
        raise UsageError(f"run {name} was not found, but not every place could be searched", remedy=_SEARCH_AGAIN)
    if run is None:
        raise UsageError(f"there is no run {name}", remedy="`upgrader history` lists all runs.")
    if not run.state.run:
        raise UsageError(f"the journal of run {name} has no record", remedy="Start a new run with: upgrader run")
    kind = run.state.kind
    if kind is not RunKind.UPGRADE:
        raise UsageError(f"run {name} is not an upgrade", remedy=f"To continue it, run: {kind.command}")
    return run


def newer_records(state: RunState) -> str:
    """Says that this version doesn't know all that the run did."""
    return (
        f"the journal of run {state.run} has records that this version of upgrader doesn't know, because a newer one "
        f"wrote them: {', '.join(state.unknown)}"
    )


def _refuse_older(run: DiscoveredRun, found: DiscoveredRuns) -> None:
    """The changes of a later run build on those of this one."""
    later = built_on(run, found)
    if later is None:
        return
    kind = later.state.kind
    if kind in _NO_WAY_BACK:
        raise UsageError(
            f"the later run {later.name} {_NO_WAY_BACK[kind]}: {run.name} can no longer be resumed or rolled back",
            remedy="Objects may be stored in versions that the old minor can't read. Fix the problem with a new "
            "`upgrader run`.",
        )
    raise UsageError(
        f"the changes of the later run {later.name} are still in place",
        remedy=f"First roll it back (upgrader rollback --run {later.name}), or continue from the current state."
        if later.state.is_upgrade
        else _start_anew(kind),
    )


def _start_anew(kind: RunKind) -> str:
    if kind is RunKind.LEAVE_OUT_CONTROLLER:
        return (
            "It left out a controller that was down. Upgrades that started before that run can't be continued. If "
            "that controller is up again, first upgrade it: upgrader resume (without --run). Then start a new run: "
            "upgrader run"
        )
    return (
        f"It was `{kind.command}`. Upgrades that started before that run can't be continued. Start a new run: upgrader "
        "run"
    )


def _refuse_half_left_out(marked: Session) -> None:
    """Raise Blocked where a controller is neither left out nor takes part: the releases may count it, or not."""
    for name, mark in marked.left_out.items():
        if mark.phase != "out":
            what, how = half_left_out(mark.phase)
            raise Blocked(f"controller {name}: {what}; nothing was changed", remedy=how)
