"""Files of this host that are on the disk, whole, once they are written."""

from __future__ import annotations

import contextlib
import os
import stat

__all__ = ["replace", "sync", "write"]

_BESIDE = ".upgrader-new"
"""Behind a name that begins with a dot: the kubelet reads no such file among its manifests."""


def replace(path: str, data: bytes) -> None:
    """Put data in the place of a file, whose mode and owner stay: there is the old content or the new one, whole.

    Where there is none, it is made, and only its owner can read it.
    """
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}{_BESIDE}")
    try:
        write(beside, data, like=os.stat(path) if os.path.exists(path) else None)
        os.rename(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    sync(folder)


def write(path: str, data: bytes, like: os.stat_result | None = None) -> None:
    """A new file in place of any that has its name; its folder isn't synced. Only its owner can read it, unless it is
    to have another one's mode and owner (`like`).
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(data)
        if like is not None:
            os.fchown(number, like.st_uid, like.st_gid)
            os.fchmod(number, stat.S_IMODE(like.st_mode))
        file.flush()
        os.fsync(number)


def sync(folder: str) -> None:
    """Have the names of a folder's files on the disk."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
