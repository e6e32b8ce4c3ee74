"""An interrupted run, resumed at the command line: shown, confirmed, and continued with the hops that are left."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from upgrader.cli.approved_inputs import refuse_unapproved, with_approved_inputs
from upgrader.cli.notices import say
from upgrader.cli.operator import Operator
from upgrader.cli.questions import conclude, confirm
from upgrader.errors import Blocked
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.front_end import FrontEnd
    from upgrader.app.upgrade import ProposedUpgrade
    from upgrader.engine.execution.next_action import Action

__all__ = ["resume_now"]


def resume_now(
    folder: Path,
    name: str | None,
    shown: FrontEnd,
    *,
    accept_changes: bool,
    yes: bool,
    take_over: bool,
    done: str = "",
    approved: str | None = None,
    only_to: KubernetesVersion | None = None,
) -> KubernetesVersion | None:
    """Resume a run (None: the newest upgrade), and all hops after it. Returns the version that it was on the way to.

    `done` is a step whose changes were taken back by hand; "": none. `approved` is the digest of the folder that the
    run and the hops after it need. `only_to` is the version that it must be on the way to (None: any): others may have
    written what its journal says of that, and of its inputs.

    Raises the error of its outcome, UsageError where there is nothing to resume or its inputs have changed, and Blocked
    for another version or digest.
    """
    from upgrader.app.hops import hops_left, refuse_if_stopped, run_hops, skips_of
    from upgrader.app.resume import resumable_run
    from upgrader.app.upgrade import propose_upgrade
    from upgrader.cli.ui.runs import print_run

    with resumable_run(folder, name, shown, take_over=take_over, done=done) as found:
        print_run(found.run.state)
        asked, wanted = found.goal, found.run.session.settings.target
        aim = found.run.state.goal or found.run.state.target
        if only_to is not None and aim != only_to:
            raise Blocked(
                f"run {found.run.state.run} upgrades to {aim}, but the campaign is for {only_to}: it was not resumed",
                remedy="Look at it (upgrader history), and end it with `upgrader resume` or `upgrader rollback`.",
            )
        resumed = found.prepare(accept_changes=accept_changes)
        say(f"Next: {_describe(resumed.next, done)}")
        if asked is not None and wanted < asked:
            say(
                f"After that, the upgrade continues to {asked}, its original target, although upgrader.yaml now has "
                f"{wanted}. Press Ctrl-C if you no longer want that."
            )
        confirm("Resume?", yes=yes)
        refuse_unapproved(folder, approved)
        finished = resumed.execute()
    conclude(finished)
    goal = hops_left(finished.state)
    if goal is not None:
        refuse_if_stopped(found.run.held.stop, goal)
        say(f"On the way to {goal}: the next minor version")
        skips = skips_of(finished.state)

        def propose(most: int | None) -> AbstractContextManager[ProposedUpgrade]:
            proposed = propose_upgrade(folder, goal, shown, take_over=False, skips=skips, most=most)
            return with_approved_inputs(folder, approved, proposed, finished.state.campaign)

        run_hops(propose, Operator(yes, skips))
    return asked or found.run.state.target


def _describe(action: Action, done: str) -> str:
    from upgrader.engine.execution.next_action import Begin, CheckGates, Complete, End, Undo

    match action:
        case Begin():
            return f"begin {action.step}"
        case Complete():
            return f"inspect {action.step}, which was interrupted, and complete it"
        case CheckGates():
            return f"check the gates of {action.step}"
        case Undo() if action.step == done:
            return f"only check the gates of {done}, whose changes were reverted by hand (--done)"
        case Undo():
            return f"roll back: undo {action.step}"
        case End():
            return f"only record that the run has ended ({action.outcome})"
