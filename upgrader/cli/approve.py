"""`upgrader approve`: let a run begin a step that waits for a person."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.app.approval import approve_step
from upgrader.cli.command_line import EVENTS
from upgrader.cli.completing import complete_planned_step
from upgrader.cli.notices import say

__all__ = ["approve"]


@click.command()
@click.argument("step", shell_complete=complete_planned_step)
@click.option("--reason", metavar="TEXT", required=True, help="Why, for the run's journal.")
@EVENTS
@click.pass_obj
def approve(folder: Path, step: str, reason: str) -> None:
    """Approve of the step that a run of this cluster waits for (`approval` in upgrader.yaml).

    The run may be on any machine: the approval is written to the ConfigMap kube-system/upgrader-approval, with this
    user's name and the reason. Whoever may change that may approve.

    Exit codes: 0 approved, 2 no run waits for this step, 5 the API refused it or did not answer.
    """
    if not reason.strip():
        raise click.BadParameter("must not be empty", param_hint="--reason")
    say(f"Approved: run {approve_step(folder, step, reason)}, step {step}")
