"""`upgrader resume`: continue a run that was interrupted, from this machine or another."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.cli.command_line import EVENTS, NAMED, RUN, TAKE_OVER, YES, front_end, one_run
from upgrader.cli.leaving_out import take_back
from upgrader.cli.resuming import resume_now

__all__ = ["resume"]


@click.command()
@NAMED
@RUN
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Continue even if charts, values or playbooks have changed since the run began; use the current ones.",
)
@click.option(
    "--done",
    metavar="STEP",
    default="",
    help="Confirm that you have reverted this playbook's changes by hand after its rollback failed. Only its gates "
    "are checked, and the rollback continues with the steps before it.",
)
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def resume(
    folder: Path, named: str | None, name: str | None, accept_changes: bool, done: str, yes: bool, take_over: bool
) -> None:
    """Resume an interrupted or failed run in the same direction: upgrade or rollback.

    The journal is found in this folder, in the cluster, or on its controllers. An interrupted step is inspected first:
    upgrader waits for what is still in progress, and does not repeat what is done. Then the run continues with all
    gates, and the upgrade with the remaining minor versions. In a failed run, an incomplete rollback is retried; with
    `policy.onFailure: stop`, the failed step is retried.

    If the newest upgrade has ended, and it left out a controller that was down, this upgrades that controller to
    the version of the others, once it is back.

    Exit codes: as for `upgrader run`; 2 also if there is nothing to resume or the run's inputs have changed, 5 also if
    something else changed the interrupted step's release.
    """
    run = one_run(name, named)
    shown = front_end()  # before the imports, which take seconds
    if run is None and not done and take_back(folder, shown, yes=yes, take_over=take_over):
        return
    resume_now(folder, run, shown, accept_changes=accept_changes, yes=yes, take_over=take_over, done=done)
