"""`upgrader run`: execute the plan."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import click

from upgrader.app.execution import FinishedRun
from upgrader.app.hops import run_hops
from upgrader.app.upgrade import CheckedPlan, ProposedUpgrade, propose_upgrade
from upgrader.app.wiring import system_clock
from upgrader.cli.command_line import (
    DURATION,
    FRONT_END,
    REASON,
    SKIP,
    TAKE_OVER,
    TARGET,
    YES,
    conclude,
    confirm,
    mention_needless,
    say,
)
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.skipping import NO_SKIPS, Skips
from upgrader.ui.plan import print_plan
from upgrader.ui.terminal import duration

__all__ = ["Operator", "run"]


@dataclass
class Operator:
    """The person, or the job, at the command line: sees each hop's plan, and is asked before the first."""

    yes: bool
    skips: Skips = NO_SKIPS
    pause_seconds: float = 0.0
    started: bool = False

    def approve(self, checked: CheckedPlan, *, foreseen: bool) -> None:
        """Show the plan; ask before the first hop, and before one that differs from what was shown of it."""
        if not self.started:
            mention_needless(self.skips, checked.all_findings)
        print_plan(checked.document, diff=False)
        if checked.inhibited:
            return
        if not self.started:
            confirm("Start?", yes=self.yes)
        elif not foreseen:
            target = checked.plan.target
            say(f"The plan to {target} is not what was shown at the start: the cluster or its folder has changed.")
            confirm("Go on?", yes=self.yes)
        self.started = True

    def ended(self, finished: FinishedRun) -> None:
        """Print the run's report, and raise its error."""
        conclude(finished)

    def pause(self, checked: CheckedPlan) -> None:
        """Wait as long as was asked for."""
        upcoming = f"next: {checked.ahead[0].plan.target}, on the way to {checked.goal}"
        if not self.pause_seconds:
            say(f"{checked.plan.target} is done; {upcoming}")
            return
        say(
            f"{checked.plan.target} is done; {upcoming}, in {duration(self.pause_seconds)} (--pause-between). "
            f"Ctrl-C stops here; the same command goes on later."
        )
        system_clock().sleep(self.pause_seconds)


@click.command()
@TARGET
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run exactly what `upgrader plan --out FILE` saved, to its target, or refuse.",
)
@click.option(
    "--bundle",
    "bundle_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Import images from this file of `upgrader bundle create` first.",
)
@click.option(
    "--max-hops",
    metavar="N",
    type=click.IntRange(min=1),
    help="Go through at most so many minor versions, where the target is several ahead.",
)
@click.option(
    "--pause-between",
    metavar="DURATION",
    type=DURATION,
    default=0.0,
    help="Wait so long between two minor versions, such as 30m.",
)
@YES
@TAKE_OVER
@SKIP
@REASON
@click.pass_obj
def run(
    folder: Path,
    target: KubernetesVersion | None,
    plan_file: Path | None,
    bundle_file: Path | None,
    max_hops: int | None,
    pause_between: float,
    yes: bool,
    take_over: bool,
    skipped: tuple[str, ...],
    reason: str | None,
) -> None:
    """Upgrade the cluster: plan, check, then step by step, each followed by its health gates.

    A step that fails is rolled back, then the earlier steps of this run, unless `policy.onFailure` is set differently.

    A target that is several minor versions ahead is reached through each of them, in a run of its own. One that fails
    leaves the cluster at the last version that was reached; the same command goes on from there.

    \b
    Exit codes: 0 done, 2 wrong usage or files, 3 blocked by a check or not the saved plan, 4 failed and rolled back
    with the cluster healthy, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    if plan_file is not None and (max_hops or pause_between):
        raise UsageError("--plan is of one minor version: --max-hops and --pause-between have no meaning with it")
    skips = Skips.of(skipped, reason)
    operator = Operator(yes, skips, pause_between)

    def propose(most: int | None) -> AbstractContextManager[ProposedUpgrade]:
        # A lock is taken over from a dead run once, not again from whoever has come between two hops.
        first = take_over and not operator.started
        return propose_upgrade(
            folder,
            target,
            FRONT_END,
            take_over=first,
            skips=skips,
            saved_in=plan_file,
            most=most,
            bundled_in=bundle_file,
        )

    run_hops(propose, operator, max_hops)
