"""Whether a minor upgrade begins with a backup."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.preflight.conftest import World, workload
from upgrader.preflight.backups import check_backups


def test_a_minor_upgrade_without_a_backup_is_a_warning(world: World) -> None:
    """With somebody who can read it there is one; a patch release needs none."""
    context = replace(world.context(), takes_backups=False)
    assert [(item.id, item.severity) for item in check_backups(context)] == [("backup.none", "warning")]
    assert list(check_backups(replace(context, takes_backups=True))) == []
    world.target = world.observed.server
    assert list(check_backups(replace(world.context(), takes_backups=False))) == []


def test_a_new_run_that_completes_a_minor_upgrade_warns_as_the_first_one_did(world: World) -> None:
    """An interrupted one has upgraded kube-apiserver, and the others are still of the minor before."""
    image = "registry.k8s.io/kube-scheduler:{}"
    world.before["kubernetes"], world.manifests["kubernetes"] = (
        workload({"name": "kube-scheduler", "image": image.format(version)}) for version in ("v1.35.9", "v1.36.3")
    )
    world.target = world.observed.server
    context = replace(world.context(), takes_backups=False)
    assert [item.id for item in check_backups(context)] == ["backup.none"]
