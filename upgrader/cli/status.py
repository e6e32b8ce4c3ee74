"""`upgrader status`: what the newest run is doing, or how it ended."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from upgrader.cli.output import TEXT_OR_JSON

__all__ = ["status"]


@click.command()
@TEXT_OR_JSON
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_obj
def status(folder: Path, output: str, as_json: bool) -> None:
    """Show what the newest run of this cluster is doing, or how it ended, step by step.

    The folder has all of that, so the cluster is not needed. Runs of other machines are read from the cluster, or,
    where the folder has no run and the API is unreachable, from the controllers' disks. Also shows whether the run can
    be resumed, and who holds the cluster's lock, which may be another machine. For programs, `-o json` has what a run
    that is at work is doing (`now`), and `running` for its outcome.
    """
    from upgrader.app.status import known_runs
    from upgrader.ui.runs import print_status

    found = known_runs(folder).status
    if as_json or output == "json":
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        print_status(found, datetime.now(UTC), folder, sys.stdout)
