"""`upgrader backup`: take an encrypted backup of the cluster's data, or verify one; and make the key for it."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import EVENTS, IDENTITY, front_end
from upgrader.cli.notices import say
from upgrader.cli.output import print_text

__all__ = ["backup"]


@click.group(cls=GroupOfWholeLines, invoke_without_command=True)
@EVENTS
@click.pass_context
def backup(context: click.Context) -> None:
    """Take an encrypted backup of the cluster's data; `backup verify` verifies one, and `backup keygen` makes a key.

    etcd's own tools take a snapshot on a controller; a scratch etcd there restores and reads it. The snapshot and each
    controller's /etc/kubernetes are streamed into one file, encrypted for the keys in backup.recipients. Nothing is
    ever in plain text on this machine. Works while the API is down.

    Exit codes: 0 taken, 2 wrong usage or files, 3 or 5 a controller could not be reached or failed, 6 another run
    holds the lock.
    """
    if context.invoked_subcommand is not None:
        return
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.backup import take_backup
    from upgrader.cli.ui.backups import describe_backup

    taken = take_backup(context.obj, shown)
    print_text(describe_backup(taken.manifest))
    for path in taken.removed:
        say(f"removed {path.name} (backup.keep and backup.maxAge in upgrader.yaml)")
    click.echo(f"written     {taken.path} ({taken.bytes:,} bytes)")


@backup.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_obj
def keygen(folder: Path, file: Path) -> None:
    """Make a key pair for backups: write the private key to FILE, and print the public one for backup.recipients.

    The file is an age identity, as from `age-keygen`, with mode 0600. An existing file is never replaced. Keep it where
    the cluster's other secrets are: without it, the backups can't be read.
    """
    from upgrader.app.backup import make_key

    public = make_key(folder, file)
    say(f"{file} has the private key: don't keep it on this machine or in the cluster folder.")
    say("In upgrader.yaml:")
    click.echo(f"backup: {{recipients: [{public}]}}")


@backup.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@IDENTITY
@click.option(
    "--on-controller", is_flag=True, help="Also restore the backup into a scratch etcd on a controller, and read it."
)
@click.pass_obj
def verify(folder: Path, file: Path, identity: Path, on_controller: bool) -> None:
    """Decrypt a backup, and verify every hash in it. Changes nothing, and needs no cluster.

    Exit codes: 0 intact, 2 damaged, or the identity does not match.
    """
    shown = front_end(busy=on_controller)  # before the imports, which take seconds

    from upgrader.app.backup import open_backup, prove_backup
    from upgrader.cli.ui.backups import describe_backup

    opened = open_backup(file, identity)
    manifest = prove_backup(folder, opened, shown) if on_controller else opened.read()
    print_text(describe_backup(manifest))
    click.echo(
        "intact      every hash matches"
        + (", and the snapshot restores to a scratch etcd with every key" if on_controller else "")
    )
