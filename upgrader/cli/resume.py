"""`upgrader resume`: continue a run that was interrupted, from this machine or another."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import click

from upgrader.app.hops import hops_left, refuse_if_stopped, run_hops, skips_of
from upgrader.app.resume import resumable_run
from upgrader.app.upgrade import ProposedUpgrade, propose_upgrade
from upgrader.cli.command_line import FRONT_END, RUN, TAKE_OVER, YES, conclude, confirm, say
from upgrader.cli.run import Operator
from upgrader.engine.execution.next_action import Action, Begin, CheckGates, Complete, End, Undo
from upgrader.ui.runs import print_run

__all__ = ["resume"]


@click.command()
@RUN
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Continue although charts, values or playbooks have changed since the run began; use them as they are now.",
)
@YES
@TAKE_OVER
@click.pass_obj
def resume(folder: Path, name: str | None, accept_changes: bool, yes: bool, take_over: bool) -> None:
    """Resume a run that was interrupted, or failed, in the direction that it was going: upgrade or rollback.

    The journal is found in this folder, in the cluster, or on its controllers. An interrupted step is inspected first:
    upgrader waits for what is still in progress, and does not repeat what is done. Then the run continues with all
    gates, and the upgrade with the minor versions that are left. In a failed run, an incomplete rollback is tried
    again; with `policy.onFailure: stop`, the failed step is.

    \b
    Exit codes: as for `upgrader run`; 2 also when there is nothing to resume, or the run's inputs have changed, 5 also
    when the release that the run was changing was changed outside of it.
    """
    with resumable_run(folder, name, FRONT_END, take_over=take_over) as found:
        print_run(found.run.state)
        asked, wanted = found.goal, found.run.session.settings.target
        resumed = found.prepare(accept_changes=accept_changes)
        say(f"Next: {_describe(resumed.next)}")
        if asked is not None and wanted < asked:
            say(
                f"Then on to {asked}, as the run was started, though the folder asks for {wanted}. Stop it with Ctrl-C "
                "if that is no longer meant."
            )
        confirm("Resume?", yes=yes)
        finished = resumed.execute()
    conclude(finished)
    goal = hops_left(finished.state)
    if goal is not None:
        refuse_if_stopped(found.run.held.stop, goal)
        say(f"On the way to {goal}: the next minor version")
        skips = skips_of(finished.state)

        def propose(most: int | None) -> AbstractContextManager[ProposedUpgrade]:
            return propose_upgrade(folder, goal, FRONT_END, take_over=False, skips=skips, most=most)

        run_hops(propose, Operator(yes, skips))


def _describe(action: Action) -> str:
    match action:
        case Begin():
            return f"begin {action.step}"
        case Complete():
            return f"inspect {action.step}, which was interrupted, and complete it"
        case CheckGates():
            return f"check the gates of {action.step}"
        case Undo():
            return f"roll back: undo {action.step}"
        case End():
            return f"only record that the run has ended ({action.outcome})"
