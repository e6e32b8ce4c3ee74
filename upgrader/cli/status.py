"""`upgrader status`: what the newest run is doing, or how it ended."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from upgrader.cli.command_line import front_end
from upgrader.cli.output import TEXT_OR_JSON

__all__ = ["status"]


@click.command()
@TEXT_OR_JSON
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_obj
def status(folder: Path, output: str, as_json: bool) -> None:
    """Show what the newest run of this cluster is doing, or how it ended, step by step.

    Reads the folder, so it needs no cluster. Runs of other machines are read from the cluster, or, if the folder has no
    run and the API is unreachable, from the controllers' disks. Also shows whether the run can be resumed, and which
    machine holds the cluster's lock. For programs, `-o json` has what an active run is doing (`now`), and `running` as
    its outcome.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.status import known_runs
    from upgrader.cli.ui.runs import print_status

    with shown.busy("looking for runs…"):
        found = known_runs(folder).status
    if as_json or output == "json":
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        print_status(found, datetime.now(UTC), folder, sys.stdout)
