"""`upgrader replay`: a recorded run, in the display of a live one."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import click

from upgrader.cli.completing import complete_run
from upgrader.cli.ended_by_signals import ended_by_signals

__all__ = ["replay"]


@click.command()
@click.argument("run", metavar="RUN|FILE", shell_complete=complete_run)
@click.option(
    "--speed",
    metavar="N",
    type=click.FloatRange(min=0.1, max=1000.0),
    default=10.0,
    show_default=True,
    help="Playback speed: 10 is ten times as fast.",
)
@click.pass_obj
def replay(folder: Path, run: str, speed: float) -> None:
    """Play back a recorded run: RUN of this folder, or a FILE.

    FILE is a journal (runs/RUN/journal.jsonl), or the output of a command with -o json. The display always says that it
    is a recording. No pause is longer than 2 s. Ctrl-C ends it. Without a terminal, all lines are printed immediately.
    Changes nothing, and needs no cluster.

    Exit codes: 0 shown, 2 no such run, or a file that can't be replayed.
    """
    from upgrader.app.recorded_run import recorded_run
    from upgrader.cli.ui.replay import replay as replay_run

    found = recorded_run(folder, run)
    enough = threading.Event()
    with ended_by_signals(enough.set):
        replay_run(found, sys.stdout, speed, enough.wait)
