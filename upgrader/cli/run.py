"""`upgrader run`: execute the plan."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.approved_inputs import (
    ApprovedChanges,
    campaign_options,
    read_copies,
    refuse_late,
    with_approved_inputs,
)
from upgrader.cli.command_line import (
    DURATION,
    EVENTS,
    REASON,
    SKIP,
    TAKE_OVER,
    TARGET,
    TIMEOUT,
    WAIT,
    YES,
    front_end,
    wait_seconds,
)
from upgrader.cli.leaving_out import leave_out
from upgrader.cli.notices import say
from upgrader.cli.operator import Operator
from upgrader.cli.questions import agrees
from upgrader.cli.resuming import resume_now
from upgrader.errors import UpgraderError, UsageError
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.upgrade import ProposedUpgrade

__all__ = ["run"]


@click.command()
@TARGET
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run the plan that `upgrader plan --out FILE` saved, or refuse if anything has changed.",
)
@click.option(
    "--bundle",
    "bundle_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="First import images from this bundle (`upgrader bundle create`).",
)
@click.option(
    "--max-hops",
    metavar="N",
    type=click.IntRange(min=1),
    help="Upgrade through at most N minor versions, if the target is several ahead.",
)
@click.option(
    "--pause-between",
    metavar="DURATION",
    type=DURATION,
    default=0.0,
    help="Wait this long between two minor versions, such as 30m.",
)
@click.option(
    "--resume",
    "resume_first",
    is_flag=True,
    help="If the newest upgrade was interrupted, resume it instead of starting a new one: for jobs that are retried.",
)
@click.option(
    "--new",
    "anew",
    is_flag=True,
    help="If the newest upgrade was interrupted, keep its changes, and start a new run from the current state.",
)
@campaign_options
@YES
@TAKE_OVER
@WAIT
@TIMEOUT
@SKIP
@REASON
@EVENTS
@click.pass_obj
def run(
    folder: Path,
    target: KubernetesVersion | None,
    plan_file: Path | None,
    bundle_file: Path | None,
    max_hops: int | None,
    pause_between: float,
    resume_first: bool,
    anew: bool,
    approved: str | None,
    copies: Path | None,
    begin_by: datetime | None,
    campaign: str,
    changes: str | None,
    after: str | None,
    yes: bool,
    take_over: bool,
    wait: bool,
    timeout: float | None,
    skipped: tuple[str, ...],
    reason: str | None,
) -> None:
    """Upgrade the cluster: plan, check, then step by step, each followed by its health gates.

    A step that fails is rolled back, then the earlier steps of this run, unless `policy.onFailure` is set differently.

    If the target is several minor versions ahead, each one gets its own run. If one fails, the cluster stays at the
    last version that was reached; run the same command to continue from there.

    If the newest upgrade was interrupted, on this machine or another, and its changes are still in place, choose:
    --resume continues it as `upgrader resume` does, but refuses a run that failed: check that first. --new starts a new
    run, whose rollback restores what the interrupted one left.

    If a controller is down, the run doesn't start; with `policy.degraded: allow`, it leaves out one of three or more
    controllers.

    Exit codes: 0 done, 2 wrong usage or files, 3 blocked by a check or an outdated saved plan, 4 failed and rolled
    back with the cluster healthy, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    if plan_file is not None and (max_hops or pause_between):
        raise UsageError(
            "a saved plan has one minor version: --max-hops and --pause-between can't be combined with --plan"
        )
    if resume_first and anew:
        raise UsageError("--resume and --new can't be combined", remedy="Use only one of them.")
    patience = wait_seconds(wait=wait, timeout=timeout)
    skips = Skips.of(skipped, reason)
    shown = front_end()  # before the imports, which take seconds
    read_copies(folder, copies, approved)

    from upgrader.app.hops import run_hops
    from upgrader.app.left_out import WantedUpgrade
    from upgrader.app.resume_or_start import interrupted_upgrade, refuse_other_target
    from upgrader.app.upgrade import propose_upgrade
    from upgrader.app.wait_for_start import wait_for_start
    from upgrader.app.wanted_version import left_behind, write_wanted

    if patience is not None:
        wait_for_start(folder, target, patience, shown)
    name = ""
    if resume_first:
        with shown.busy("looking for runs…"):
            name = interrupted_upgrade(folder, shown.notify, after, target)
    if name:
        say(f"Run {name} was interrupted: resuming it (--resume)")
        reached = resume_now(
            folder,
            name,
            shown,
            accept_changes=False,
            yes=yes,
            take_over=take_over,
            approved=approved,
            only_to=target if approved is not None else None,
        )
        refuse_other_target(folder, reached, target, plan_file)
        return
    if begin_by is not None:
        refuse_late(begin_by)
    # A saved plan is of the controllers that took part when it was made.
    kept = ApprovedChanges(changes, campaign) if changes is not None else None
    wanted = WantedUpgrade(target, skips, max_hops, bundle_file, anew, kept.refuse_others if kept else None)
    if plan_file is None and leave_out(folder, wanted, shown, yes=yes, take_over=take_over):
        take_over = False
    operator = Operator(yes, skips, pause_between)

    def propose(most: int | None) -> AbstractContextManager[ProposedUpgrade]:
        # A lock is taken over from a dead run once, not again from whoever has come between two hops.
        first = take_over and not operator.started
        proposed = propose_upgrade(
            folder,
            target,
            shown,
            take_over=first,
            skips=skips,
            saved_in=plan_file,
            most=most,
            bundled_in=bundle_file,
            anew=anew,
        )
        return with_approved_inputs(folder, approved, proposed, campaign, kept)

    run_hops(propose, operator, max_hops)
    for finding in operator.left_out:
        say(f"The upgrade has left out a controller. {finding.remedy}")
    if left := left_behind(folder, operator.reached):
        say(left)
        if operator.reached is not None and not yes and agrees("Write that version to upgrader.yaml?"):
            try:
                write_wanted(folder, operator.reached)
            except (UpgraderError, OSError) as error:  # the upgrade has succeeded all the same
                say(f"upgrader.yaml was not changed: {error}")
