"""`upgrader approve`: let a run begin a step that waits for a person."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from upgrader.cli.command_line import EVENTS, front_end
from upgrader.cli.completing import complete_planned_step
from upgrader.cli.notices import say
from upgrader.errors import UsageError

__all__ = ["approve"]


@click.command()
@click.argument("step", shell_complete=complete_planned_step)
@click.option("--reason", metavar="TEXT", help="Reason, which the run's journal records (prompted for at a terminal).")
@EVENTS
@click.pass_obj
def approve(folder: Path, step: str, reason: str | None) -> None:
    """Approve the step that a run of this cluster waits for (`approval` in upgrader.yaml).

    The run may be on any machine: the approval is written to the ConfigMap kube-system/upgrader-approval, with this
    user's name and the reason. Anyone who may change that ConfigMap may approve.

    Exit codes: 0 approved, 2 no run waits for this step, 5 the API rejected it or did not answer.
    """
    if reason is None:
        reason = _asked_for(step)
    if not reason.strip():
        raise click.BadParameter("must not be empty", param_hint="--reason")
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.approval import approve_step

    with shown.busy("asking the cluster…"):
        run = approve_step(folder, step, reason)
    say(f"Approved: run {run}, step {step}")


def _asked_for(step: str) -> str:
    """The reason, as it is typed. A job's open standard input would never answer."""
    if not _at_a_terminal():
        raise UsageError(
            f"the approval of step {step} needs a reason, which the run's journal records",
            remedy=f"Run `upgrader approve {step} --reason TEXT`.",
        )
    return str(click.prompt(f"Why do you approve {step}? (for the journal)", err=True))


def _at_a_terminal() -> bool:
    return sys.stdin.isatty()
