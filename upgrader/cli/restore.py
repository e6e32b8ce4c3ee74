"""`upgrader restore`: replace the cluster's data by that of a backup."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.cli.command_line import EVENTS, IDENTITY, YES, front_end
from upgrader.cli.output import print_text
from upgrader.cli.questions import start

__all__ = ["restore"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@IDENTITY
@click.option("--other-cluster", is_flag=True, help="Allow a backup of a cluster with another UID or CA.")
@YES
@EVENTS
@click.pass_obj
def restore(folder: Path, file: Path, identity: Path, other_cluster: bool, yes: bool) -> None:
    """Replace the cluster's data with a backup, on all controllers. All later changes are lost.

    First the whole backup is verified, copied to every controller next to the current data, and verified there; until
    then nothing is changed. Then kube-apiserver and etcd are stopped, the data is swapped, and everything starts again:
    the API is unreachable for about a minute. The old data is kept on the controllers. If it is interrupted, run it
    again. Works while the API is down, and without etcd's data.

    Exit codes: 0 restored and healthy, 2 wrong usage or files, a damaged backup, or another cluster's, 3 a controller
    could not be reached, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.restore import propose_restore
    from upgrader.cli.ui.backups import describe_backup
    from upgrader.cli.ui.proposed_steps import print_steps

    with propose_restore(folder, file, identity, shown, other_cluster=other_cluster) as proposed:
        print_text(describe_backup(proposed.manifest), err=True)
        print_steps(proposed.pipeline)
        start(proposed, question="Replace all of this cluster's data with that backup?", yes=yes)
