"""`upgrader finalize`: end the emulation of the old minor."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from upgrader.cli.approved_inputs import (
    ApprovedChanges,
    campaign_options,
    read_copies,
    refuse_late,
    refuse_unapproved,
)
from upgrader.cli.command_line import EVENTS, TAKE_OVER, VERSION, YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.questions import start
from upgrader.model.version import KubernetesVersion

__all__ = ["finalize"]


@click.command()
@click.option("--resume", is_flag=True, hidden=True, help="With --begin-by: continue an interrupted run at any time.")
@click.option(
    "--only-at",
    "only_at",
    metavar="VERSION",
    type=VERSION,
    hidden=True,
    help="Refuse unless the cluster runs this version, which the campaign finalizes.",
)
@campaign_options
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def finalize(
    folder: Path,
    resume: bool,
    only_at: KubernetesVersion | None,
    approved: str | None,
    copies: Path | None,
    begin_by: datetime | None,
    campaign: str,
    changes: str | None,
    after: str | None,
    yes: bool,
    take_over: bool,
) -> None:
    """End the emulation of the old minor after a run with `policy.emulation`. This is the point of no return.

    kube-apiserver, kube-controller-manager and kube-scheduler restart without emulation, each followed by its gates; a
    step that fails is rolled back, then the earlier ones. If it is interrupted, run it again. Afterwards the run that
    began the emulation can't be rolled back: objects may be stored in versions that the old minor can't read.

    Exit codes: 0 done (or nothing to finalize), 2 wrong usage or files, 3 blocked by a check, 4 failed and rolled back
    with the cluster healthy, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    shown = front_end()  # before the imports, which take seconds
    read_copies(folder, copies, approved)

    from upgrader.app.finalize import propose_finalize
    from upgrader.cli.ui.plan import print_plan
    from upgrader.model.emulation import minor_text

    # A fresh checkout doesn't know all earlier runs of its cluster: they say nothing of a first attempt.
    known = after if resume else None
    with propose_finalize(
        folder, shown, take_over=take_over, campaign=campaign, after=known, only_at=only_at
    ) as proposed:
        refuse_unapproved(folder, approved)
        if proposed is None:
            say("Nothing to finalize: the control plane emulates no older version.")
            return
        if begin_by is not None and not (resume and proposed.continues):
            refuse_late(begin_by)
        if changes is not None:
            ApprovedChanges(changes, campaign).refuse_others(proposed.checked, proposed.session)
        print_plan(proposed.checked.document, diff=False)
        proposed.checked.refuse_if_blocked()
        old = minor_text(proposed.emulated) if proposed.emulated else "the old minor"
        new = proposed.checked.plan.target
        say(f"This is the point of no return: afterwards, {new} can't be rolled back to {old}.")
        start(proposed, question=f"End the emulation of {old}?", yes=yes)
        say(
            "Existing objects stay stored in their old version until they change. Once the upgrade is known to be "
            "good, run `upgrader migrate-storage`."
        )
