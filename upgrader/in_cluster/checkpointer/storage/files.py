"""File operations that a power cut can't leave half done."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from upgrader.contract import durable_files
from upgrader.contract.durable_files import TEMPORARY, Owner, link_over, sync_folder

__all__ = [
    "TEMPORARY",
    "link_over",
    "make_folder",
    "remove",
    "remove_folder",
    "replace",
    "sweep",
    "sync_folder",
    "sync_tree",
    "write",
]


def write(path: Path, content: bytes, mode: int, uid: int | None = None, gid: int | None = None) -> None:
    """A new file, on disk when this returns. Its content is never readable by more than `mode` allows, not even for a
    moment.
    """
    durable_files.write(path, content, _owner(mode, uid, gid))


def make_folder(path: Path, mode: int = 0o700, uid: int | None = None, gid: int | None = None) -> None:
    """A new folder with exactly these permissions."""
    path.mkdir(mode=0o700)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        durable_files.own(handle, _owner(mode, uid, gid))
    finally:
        os.close(handle)


def replace(path: Path, content: bytes) -> None:
    """Put a file in place of what was there, if anything: readers see the old or the new one, whole."""
    durable_files.replace(path, content, beside=path.with_name(f"{TEMPORARY}{path.name}"))


def remove(path: Path) -> None:
    """Remove a file, on disk when this returns; fine if it isn't there."""
    durable_files.remove(path)
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder with all in it. It loses its name first, so that a half-removed one is never taken for a whole
    one.
    """
    doomed = path.with_name(f"{TEMPORARY}gone-{path.name}")
    if doomed.exists():
        shutil.rmtree(doomed)
    path.rename(doomed)
    sync_folder(path.parent)
    shutil.rmtree(doomed)


def sweep(folder: Path) -> None:
    """Remove what an interrupted operation left in this folder."""
    for entry in folder.iterdir():
        if not entry.name.startswith(TEMPORARY):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            with contextlib.suppress(FileNotFoundError):
                entry.unlink()


def sync_tree(folder: Path) -> None:
    """Make every folder's entries durable, the deepest first."""
    for path, _, _ in os.walk(folder, topdown=False):
        sync_folder(Path(path))


def _owner(mode: int, uid: int | None, gid: int | None) -> Owner:
    if uid is None or gid is None or (uid, gid) == (os.geteuid(), os.getegid()):
        return Owner(mode)
    return Owner(mode, uid, gid)
