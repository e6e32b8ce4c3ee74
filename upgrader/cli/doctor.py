"""`upgrader doctor`: whether this machine is fit for a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from upgrader.cli.command_line import front_end
from upgrader.errors import UsageError

__all__ = ["doctor"]


@click.command()
@click.pass_obj
def doctor(folder: Path) -> None:
    """Check the machine that upgrader runs on, and the folder's files: programs, keys and their permissions,
    known_hosts, free disk space, and the clock against the API server's. Changes nothing; each problem is followed by
    its remedy.

    `upgrader check` checks the cluster. Exit codes: 0 no error, warnings at most; 2 there is an error to fix.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.doctor import this_doctor
    from upgrader.cli.ui.doctor import print_symptoms

    with shown.busy("checking this machine…"):
        found = this_doctor(folder).examine(os.environ)
    print_symptoms(found, sys.stdout)
    wrong = [each.name for each in found if each.state == "error"]
    if wrong:
        raise UsageError(
            f"not ready for a run: {', '.join(wrong)}", remedy="Fix the problems above, then run it again."
        )
