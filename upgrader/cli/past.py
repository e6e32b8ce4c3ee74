"""An earlier run that a command is about: found wherever its journal is, and fit to be gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from upgrader.cli.locking import HeldLock, cluster_lock, lock_holder
from upgrader.cli.wiring import Session, open_session
from upgrader.engine.history.run_discovery import Found, FoundRun, bring_home
from upgrader.engine.locks.folder_lock import folder_lock
from upgrader.engine.state.run_state import RunState, state_of
from upgrader.errors import ApiUnavailable, UsageError

__all__ = ["RUN", "PastWork", "past_work"]

RUN = click.option(
    "--run", "name", metavar="RUN", help="Which run, as `upgrader history` names it (default: the newest)."
)

_OTHERS = {"adopt": "upgrader adopt", "adopt-undo": "upgrader adopt --undo", "recover": "upgrader recover"}
"""Runs that are no upgrades are idempotent as a whole: the same command goes on with them."""


@dataclass(frozen=True)
class PastWork:
    """A run that is at nobody's hands but ours, its journal at home in this cluster folder."""

    session: Session
    held: HeldLock
    run: FoundRun
    state: RunState
    folder: Path
    """The run's."""


@contextmanager
def past_work(folder: Path, name: str | None, *, take_over: bool) -> Iterator[PastWork]:
    """Lock the cluster, and find the run. Raises UsageError where there is none, or it can't be gone on with.

    Its journal is read before the lock of a dead holder is taken, and again behind the lock, as it may have grown.
    """
    with open_session(folder) as session, folder_lock(folder, lock_holder()):
        _choose(session.find_runs(), name)
        try:
            with cluster_lock(session, take_over=take_over) as held:
                found = session.find_runs()
                run = _choose(found, name)
                _refuse_older(run, found)
                home = bring_home(run, session.settings.folder / "runs")
                yield PastWork(session, held, run, state_of(run.records), home)
        except ApiUnavailable as error:
            raise ApiUnavailable(
                error.message,
                remedy="Bring the API back with `upgrader recover`, then run this again: the run is where it was.",
            ) from error


def _choose(found: Found, name: str | None) -> FoundRun:
    for problem in found.problems:
        click.echo(problem, err=True)
    if name is not None:
        run = found.get(name)
        if run is None:
            raise UsageError(f"there is no run {name}", remedy="`upgrader history` lists all runs.")
        again = _OTHERS.get(state_of(run.records).target)
        if again:
            raise UsageError(f"run {name} is no upgrade", remedy=f"To go on with it, run: {again}")
        return run
    upgrades = [run for run in found.runs if run.report.is_upgrade]
    if not upgrades:
        raise UsageError("this cluster has seen no upgrade yet", remedy="Begin one with: upgrader run")
    return upgrades[-1]


def _refuse_older(run: FoundRun, found: Found) -> None:
    """What a later run did stands on what this one did."""
    for later in found.runs[found.runs.index(run) + 1 :]:
        state = state_of(later.records)
        if any(step.to_undo for step in state.steps):
            other = _OTHERS.get(state.target)
            raise UsageError(
                f"run {later.name} came after {run.name}, and what it changed still stands",
                remedy=f"It was `{other}`, and an upgrade from before it can't be gone on with: begin a new run."
                if other
                else f"Take that one back first (upgrader rollback --run {later.name}), or go on from it.",
            )
