"""`upgrader status`: what is going on in a cluster folder."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from upgrader.adapters.clock import SystemClock
from upgrader.cli.folder import runs_folder
from upgrader.cli.wiring import open_kube
from upgrader.engine.clusterlock import read_lease
from upgrader.engine.history import newest_run
from upgrader.engine.lock import folder_holder
from upgrader.engine.status import status_of
from upgrader.errors import UpgraderError
from upgrader.ui.runs import print_status

__all__ = ["status"]

_SECONDS = 3.0
"""How long the API is waited for: it adds one line to what the folder says."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_obj
def status(folder: Path, as_json: bool) -> None:
    """Say what the newest run of this cluster folder is doing, or how it ended, step by step.

    All of that is in the folder, so it works while the cluster doesn't. Says too whether the run can be gone on with,
    and who holds the cluster's lock, which may be another machine.
    """
    runs = runs_folder(folder)
    found = status_of(folder_holder(folder), newest_run(runs))
    try:
        with open_kube(folder, _SECONDS) as kube:
            found = replace(found, cluster=read_lease(kube))
    except UpgraderError as error:
        found = replace(found, cluster_problem=error.message)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        print_status(found, SystemClock().now(), sys.stdout)
