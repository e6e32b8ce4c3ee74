"""`upgrader rollback`: take back what a run did, newest step first."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.cli.carry_out import carry_on
from upgrader.cli.locking import TAKE_OVER, lock_holder
from upgrader.cli.past import RUN, PastWork, past_work
from upgrader.engine.state.run_state import RunState, follow
from upgrader.errors import UsageError
from upgrader.model.event import RollbackRequested
from upgrader.reassemble import way_back
from upgrader.ui.runs import print_run, print_way_back

__all__ = ["rollback"]


@click.command()
@RUN
@click.option("--to", metavar="STEP", default="", help="Keep this step, and those before it.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
@TAKE_OVER
@click.pass_obj
def rollback(folder: Path, name: str | None, to: str, yes: bool, take_over: bool) -> None:
    """Take a run back, whether it succeeded, failed or was interrupted: its steps in reverse order, each gated.

    What each step goes back to was written down before it began, so files that were edited since don't matter. What
    the run's own rollback could not undo is tried again.

    \b
    Exit codes: 0 taken back (or nothing to take back), 2 wrong usage or files, 5 needs a person, 6 another run is at
    work, 130 interrupted (`upgrader resume` goes on).
    """
    with past_work(folder, name, take_over=take_over) as work:
        print_run(work.run.report)
        if name is None:
            _check_meant(work)
        _check_step(work.state, to)
        why = RollbackRequested(work.state.run, lock_holder(), to)
        state = follow(work.state, why)
        left = [step for step in state.way_back if step.to_undo]
        if not left:
            click.echo("Nothing to take back: no step of this run that has a way back still stands.", err=True)
            return
        print_way_back(left)
        if not yes:
            click.confirm("Start?", abort=True, err=True)
        session = work.session
        pipeline = way_back(state, session.settings, session.cluster, session.tools)
        carry_on(session, pipeline, folder=work.folder, why=why, held=work.held)


def _check_meant(work: PastWork) -> None:
    """Who takes a dead run's lock means that one, which may have been cut off before it was written down anywhere."""
    dead = work.held.lock.taken_over
    if dead is not None and work.run.report.outcome == "succeeded":
        raise UsageError(
            f"the cluster's lock was still held by {dead.holder}, but the newest run, {work.run.name}, succeeded: "
            "nothing was cut off that could be taken back",
            remedy=f"If that run is to be taken back: upgrader rollback --run {work.run.name}",
        )


def _check_step(state: RunState, to: str) -> None:
    begun = [step.name for step in state.steps]
    if to and to not in begun:
        raise UsageError(
            f"--to {to}: run {state.run} has begun no such step", remedy=f"Its steps: {', '.join(begun) or 'none'}"
        )
