"""`upgrader rollback`: undo what a run did, newest step first."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.cli.command_line import EVENTS, NAMED, RUN, TAKE_OVER, YES, front_end, one_run
from upgrader.cli.completing import complete_step
from upgrader.cli.questions import start

__all__ = ["rollback"]


@click.command()
@NAMED
@RUN
@click.option(
    "--to", metavar="STEP", default="", shell_complete=complete_step, help="Keep this step and those before it."
)
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def rollback(folder: Path, named: str | None, name: str | None, to: str, yes: bool, take_over: bool) -> None:
    """Roll back a run that succeeded, failed or was interrupted: its steps in reverse order, each followed by its
    health gates.

    The restore point of each step was recorded before it began, so later edits to values don't matter; but
    upgrader.yaml must still have the step. Steps that the run's own rollback could not undo are tried again.

    Exit codes: 0 rolled back (or nothing to roll back), 2 wrong usage or files, 3 kubelets are too new, 5 manual
    action required, 6 another run holds the lock, 130 interrupted (`upgrader resume` continues).
    """
    run = one_run(name, named)
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.rollback import run_to_roll_back
    from upgrader.cli.ui.runs import print_rollback_order, print_run

    with run_to_roll_back(folder, run, shown, take_over=take_over) as found:
        print_run(found.run.state)
        proposed = found.propose(to)
        if not proposed.steps:
            click.echo("Nothing to roll back: this run has no changes left that can be undone.", err=True)
            return
        print_rollback_order(proposed.steps)
        start(proposed, yes=yes)
