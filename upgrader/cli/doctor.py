"""`upgrader doctor`: whether this machine is fit for a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from upgrader.errors import UsageError

__all__ = ["doctor"]


@click.command()
@click.pass_obj
def doctor(folder: Path) -> None:
    """Look at the machine that upgrader runs on, and at the folder's files: programs, keys and their permissions,
    known_hosts, free disk, and the clock against the API server's. Changes nothing; a remedy is below each line that
    needs one.

    `upgrader check` looks at the cluster. Exit codes: 0 no error, warnings at most; 2 something has to be put right.
    """
    from upgrader.app.doctor import this_doctor
    from upgrader.ui.symptoms import print_symptoms

    found = this_doctor(folder).examine(os.environ)
    print_symptoms(found, sys.stdout)
    wrong = [each.name for each in found if each.state == "error"]
    if wrong:
        raise UsageError(
            f"not fit for a run yet: {', '.join(wrong)}", remedy="Do what is said above, then run it again."
        )
