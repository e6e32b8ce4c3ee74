"""`upgrader status`: what is going on in a cluster folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from upgrader.adapters.clock import SystemClock
from upgrader.cli.folder import runs_folder
from upgrader.engine.history import newest_run
from upgrader.engine.lock import folder_holder
from upgrader.engine.status import status_of
from upgrader.ui.runs import print_status

__all__ = ["status"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_obj
def status(folder: Path, as_json: bool) -> None:
    """Say what the newest run of this cluster folder is doing, or how it ended, step by step.

    Reads the folder only, so it works while the cluster doesn't. Says too whether the run can be gone on with, and who
    holds the folder's lock.
    """
    runs = runs_folder(folder)
    found = status_of(folder_holder(folder), newest_run(runs))
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        print_status(found, SystemClock().now(), sys.stdout)
