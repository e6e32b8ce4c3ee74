"""`upgrader history`: the runs of a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from upgrader.cli.elsewhere import look_elsewhere
from upgrader.cli.folder import runs_folder
from upgrader.engine.history.past_runs import past_runs
from upgrader.engine.history.run_discovery import with_remote_runs
from upgrader.engine.history.run_status import status_of
from upgrader.engine.locks.folder_lock import folder_holder
from upgrader.ui.runs import print_history

__all__ = ["history"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of runs, each as in its report.json.")
@click.pass_obj
def history(folder: Path, as_json: bool) -> None:
    """List the runs of this cluster, oldest first: when, where to, how they ended, how long they took.

    Those of other machines are read from the cluster, if it answers. `policy.keepRuns` says how many runs are kept.
    """
    here = past_runs(runs_folder(folder))
    elsewhere = look_elsewhere(folder, controllers=not here)
    runs = with_remote_runs(here, elsewhere.runs, runs_folder(folder))
    if elsewhere.problem:
        click.echo(f"runs of other machines are not known: {elsewhere.problem}", err=True)
    if as_json:
        click.echo(json.dumps([run.as_json() for run in runs], indent=2))
    else:
        status = status_of(folder_holder(folder), runs[-1] if runs else None, elsewhere.lease)
        print_history(runs, running=status.state == "running", stream=sys.stdout)
