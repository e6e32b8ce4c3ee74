"""`upgrader recover`: restore an unreachable API server from the checkpoints on the controllers."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.cli.command_line import EVENTS, YES, front_end
from upgrader.cli.exit_code import CHANGES
from upgrader.cli.notices import say
from upgrader.cli.questions import start

__all__ = ["recover"]


@click.command()
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Only this controller (repeatable).")
@click.option("--dry-run", is_flag=True, help="Show what is wrong and what would be done; change nothing.")
@YES
@EVENTS
@click.pass_context
def recover(context: click.Context, hosts: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Restore an unreachable API server from the checkpoints on the controllers, and fix the cause.

    First shows what is wrong. Then it starts stopped systemd units, and the last-known-good kube-apiserver on
    controllers without a working one. It rolls kube-apiserver's Helm release back to the revision of that checkpoint,
    and waits until the standby pods are no longer needed. If it is interrupted, run it again. It never changes etcd's
    data.

    Exit codes: 0 healthy, 2 wrong usage or files, 5 manual action required, 6 another run holds the lock, 7 --dry-run
    found something to recover, 130 interrupted.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.recovery import propose_recovery
    from upgrader.cli.ui.as_typed import program
    from upgrader.cli.ui.diagnosis import print_diagnosis
    from upgrader.cli.ui.proposed_steps import print_steps

    folder: Path = context.obj
    with propose_recovery(folder, hosts, shown, dry_run=dry_run) as proposed:
        print_diagnosis(proposed.seen)
        if not proposed.needed:
            click.echo("Nothing to recover: the API answers, and the cluster is healthy.", err=True)
            return
        proposed.check_installed()
        if proposed.missing:
            say(f"The API answers, but: {proposed.missing}")
        if not proposed.seen.blocked:
            print_steps(proposed.pipeline)
        proposed.check_possible()
        if dry_run:
            say(f"Next: {program(folder)} recover")
            context.exit(CHANGES)
        start(proposed, yes=yes)
