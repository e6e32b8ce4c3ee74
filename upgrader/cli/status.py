"""`upgrader status`: what is going on in a cluster folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from upgrader.adapters.clock import SystemClock
from upgrader.cli.elsewhere import look_elsewhere
from upgrader.cli.folder import runs_folder
from upgrader.engine.history.past_runs import past_runs
from upgrader.engine.history.run_discovery import with_remote_runs
from upgrader.engine.history.run_status import status_of
from upgrader.engine.locks.folder_lock import folder_holder
from upgrader.ui.runs import print_status

__all__ = ["status"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_obj
def status(folder: Path, as_json: bool) -> None:
    """Say what the newest run of this cluster is doing, or how it ended, step by step.

    All of that is in the folder, so it works while the cluster doesn't; what other machines did is read from the
    cluster, or, where the folder knows of no run and there is no API, from the controllers' disks. Says too whether
    the run can be gone on with, and who holds the cluster's lock, which may be another machine.
    """
    runs = runs_folder(folder)
    here = past_runs(runs)
    elsewhere = look_elsewhere(folder, controllers=not here)
    known = with_remote_runs(here, elsewhere.runs, runs)
    found = status_of(folder_holder(folder), known[-1] if known else None, elsewhere.lease, elsewhere.problem)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        print_status(found, SystemClock().now(), sys.stdout)
