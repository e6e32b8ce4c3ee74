"""Whether a minor upgrade begins with a backup."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.preflight.conftest import World
from upgrader.preflight.backups import check_backups


def test_a_minor_upgrade_without_a_backup_is_a_warning(world: World) -> None:
    """With somebody who can read it there is one; a patch release needs none."""
    context = replace(world.context(), takes_backups=False)
    assert [(item.id, item.severity) for item in check_backups(context)] == [("backup.none", "warning")]
    assert list(check_backups(replace(context, takes_backups=True))) == []
    assert context.observed.server is not None
    assert list(check_backups(replace(context, target=context.observed.server))) == []
