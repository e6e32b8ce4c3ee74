"""`upgrader run`: execute the plan."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.app.upgrade import propose_upgrade
from upgrader.cli.command_line import (
    FRONT_END,
    REASON,
    SKIP,
    TAKE_OVER,
    TARGET,
    YES,
    conclude,
    confirm,
    mention_needless,
)
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.skipping import Skips
from upgrader.ui.plan import print_plan

__all__ = ["run"]


@click.command()
@TARGET
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run exactly what `upgrader plan --out FILE` saved, to its target, or refuse.",
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
    yes: bool,
    take_over: bool,
    skipped: tuple[str, ...],
    reason: str | None,
) -> None:
    """Upgrade the cluster: plan, check, then step by step, each followed by its health gates.

    A step that fails is rolled back, then the earlier steps of this run, unless `policy.onFailure` is set differently.

    \b
    Exit codes: 0 done, 2 wrong usage or files, 3 blocked by a check or not the saved plan, 4 failed and rolled back
    with the cluster healthy, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    skips = Skips.of(skipped, reason)
    with propose_upgrade(folder, target, FRONT_END, take_over=take_over, skips=skips, saved_in=plan_file) as proposed:
        checked = proposed.checked
        mention_needless(skips, checked.findings)
        print_plan(checked.document, diff=False)
        if not checked.inhibited:
            confirm("Start?", yes=yes)
        conclude(proposed.execute())
