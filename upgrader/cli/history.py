"""`upgrader history`: the runs of a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from upgrader.cli.command_line import front_end
from upgrader.cli.notices import say
from upgrader.cli.output import TEXT_OR_JSON

__all__ = ["history"]


@click.command()
@TEXT_OR_JSON
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of runs, each as in its report.json.")
@click.pass_obj
def history(folder: Path, output: str, as_json: bool) -> None:
    """List the runs of this cluster, oldest first: start, purpose, outcome and duration.

    Runs of other machines are read from the cluster, if it answers. `policy.keepRuns` sets how many runs are kept.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.status import known_runs
    from upgrader.cli.ui.runs import print_history

    with shown.busy("looking for runs…"):
        known = known_runs(folder)
    if known.problem:
        say(f"The runs of other machines could not be read: {known.problem}")
    running = known.status.state == "running"
    if as_json or output == "json":
        newest = known.runs[-1:]
        listed = [run.as_json(running=running and run in newest) for run in known.runs]
        click.echo(json.dumps(listed, indent=2))
    else:
        print_history(known.runs, running=running, complete=not known.problem, stream=sys.stdout)
