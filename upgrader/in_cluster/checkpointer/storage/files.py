"""File operations that a power cut can't leave half done."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

TEMPORARY = ".tmp-"
"""Names of unfinished things start with it. The kubelet reads no file whose name starts with a dot."""


def write(path: Path, content: bytes, mode: int, uid: int | None = None, gid: int | None = None) -> None:
    """A new file, on disk when this returns. Its content is never readable by more than `mode` allows, not even for a
    moment.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        _own(file.fileno(), mode, uid, gid)
        os.fsync(file.fileno())


def make_folder(path: Path, mode: int = 0o700, uid: int | None = None, gid: int | None = None) -> None:
    """A new folder with exactly these permissions."""
    path.mkdir(mode=0o700)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _own(handle, mode, uid, gid)
    finally:
        os.close(handle)


def replace(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Put a file in place of what was there, if anything: readers see the old or the new one, whole."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    temporary.unlink(missing_ok=True)
    write(temporary, content, mode)
    temporary.rename(path)
    sync_folder(path.parent)


def link_over(path: Path, source: Path) -> None:
    """The same with a second name for a file that is there already: needs no room on a full disk."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    temporary.unlink(missing_ok=True)
    temporary.hardlink_to(source)
    temporary.rename(path)
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, on disk when this returns; fine if it isn't there."""
    path.unlink(missing_ok=True)
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


def sync_folder(path: Path) -> None:
    """Make a folder's entries durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _own(handle: int, mode: int, uid: int | None, gid: int | None) -> None:
    # Owner first: chown clears bits that chmod sets.
    if uid is not None and gid is not None and (uid, gid) != (os.geteuid(), os.getegid()):
        os.fchown(handle, uid, gid)
    os.fchmod(handle, mode)
