"""`upgrader migrate-storage`: store every object as the version that runs now stores it."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.cli.command_line import EVENTS, TAKE_OVER, YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.questions import start

__all__ = ["migrate_storage"]


@click.command("migrate-storage")
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def migrate_storage(folder: Path, yes: bool, take_over: bool) -> None:
    """Rewrite every object in the current storage version, once a minor upgrade is known to be good.

    Objects stay in etcd in the version that they were written in, which a later minor might not read. This updates each
    object without a change, one after the other; conflicts are fine. In each CustomResourceDefinition, only the storage
    version remains in status.storedVersions. If it is interrupted, run it again. Afterwards, an earlier upgrade from
    another minor can't be rolled back.

    Exit codes: 0 done, 2 wrong usage or files, 3 blocked, 5 manual action required (objects that were not migrated are
    listed), 6 another run holds the lock, 130 interrupted.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.storage_migration import propose_migration

    with propose_migration(folder, shown, take_over=take_over) as proposed:
        version = proposed.plan.target
        say(f"This stores every object as {version} does: afterwards, a rollback to an older minor is impossible.")
        start(proposed, question=f"Migrate the cluster's objects to {version}?", yes=yes)
