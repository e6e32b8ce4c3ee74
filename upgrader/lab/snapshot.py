"""Saves and restores a lab's disks and cluster folder, to try an upgrade repeatedly from the same start.

::

    snapshots/<name>/nodes/<node>/<folder>   the bound folders and the overlay's upper side
                     folder/                 the cluster folder, without runs/, which stay as they are

A snapshot is written under another name and renamed, so an existing one is complete. Machines must be off.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from upgrader.errors import UsageError
from upgrader.lab.build_cache import remove_tree
from upgrader.lab.existing_labs import lab_dir
from upgrader.lab.image_catalog import link_store
from upgrader.lab.nspawn_machine import BOUND
from upgrader.lab.spec import Placement

__all__ = ["put_back", "remember", "require_snapshot"]

_FOLDERS = ("upper", *BOUND)
_RUNS = "runs"


def remember(placement: Placement, name: str) -> None:
    """Create the snapshot `name`, or replace the one of that name."""
    target = _snapshot(placement, name)
    draft = target.with_name(f".{name}.making")
    remove_tree(draft)
    for node in placement.nodes:
        (draft / "nodes" / node.name).mkdir(parents=True)
        _copy(lab_dir(placement.spec.name) / "nodes" / node.name, draft / "nodes" / node.name)
    shutil.copytree(placement.folder, draft / "folder", ignore=shutil.ignore_patterns(_RUNS))
    remove_tree(target)
    draft.rename(target)


def put_back(placement: Placement, name: str) -> None:
    """Restore disks and cluster folder; idempotent, so it can be repeated after an interruption."""
    source = require_snapshot(placement, name)
    for node in placement.nodes:
        disk = lab_dir(placement.spec.name) / "nodes" / node.name
        for folder in (*_FOLDERS, "work"):
            remove_tree(disk / folder)
        _copy(source / "nodes" / node.name, disk)
        (disk / "work").mkdir()
    for entry in placement.folder.iterdir():
        if entry.name != _RUNS:
            remove_tree(entry)
    shutil.copytree(source / "folder", placement.folder, dirs_exist_ok=True)


def require_snapshot(placement: Placement, name: str) -> Path:
    """The snapshot's folder; UsageError names the existing ones."""
    found = _snapshot(placement, name)
    if found.is_dir():
        return found
    names = sorted(entry.name for entry in found.parent.glob("[!.]*"))
    lab = placement.spec.name
    raise UsageError(
        f"lab {lab} has no snapshot {name!r}",
        remedy=f"its snapshots: {', '.join(names)}" if names else f"create one: upgrader lab save {name} --name {lab}",
    )


def _snapshot(placement: Placement, name: str) -> Path:
    if not name.replace("-", "").isalnum():
        raise UsageError(f"snapshot name {name!r} may contain only letters, digits and -")
    return lab_dir(placement.spec.name) / "snapshots" / name


def _copy(source: Path, target: Path) -> None:
    for folder in _FOLDERS:
        if folder == "containerd":
            # Content and image layers never change in place, and containers from before a boot never run again.
            link_store(source / folder, target / folder)
        else:
            subprocess.run(["cp", "-a", str(source / folder), str(target / folder)], check=True)
