"""Files that are put in place whole, and stay so after a power cut."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

__all__ = [
    "Owner",
    "copier",
    "fsync_folder",
    "owner_of",
    "remove",
    "replace",
    "replace_link",
    "sha256_of",
    "text_writer",
]

_BESIDE = ".upgrader-new"
"""The suffix of a file that is being written. systemd reads no drop-in of that name."""

_AT_ONCE = 4 << 20
"""Bytes."""


class Owner(NamedTuple):
    """Whose a file is, and who may do what with it."""

    mode: int
    uid: int
    gid: int


def sha256_of(path: str) -> str:
    """The SHA-256 of a file's content, or "" where there is no such file."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()


def replace(path: str, write: Callable[[BinaryIO], None], owner: Owner, *, sha256: str = "") -> None:
    """Write a file beside `path`, onto the disk, and rename it: there is the old file or the new one, never a part.

    With `sha256`, what was written must have it. Raises ValueError where it hasn't, OSError where the disk is full.
    """
    beside = _beside(path)
    remove(beside)
    try:
        number = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(number, "w+b") as stream:
            write(stream)
            stream.flush()
            os.fchown(stream.fileno(), owner.uid, owner.gid)
            os.fchmod(stream.fileno(), stat.S_IMODE(owner.mode))
            os.fsync(stream.fileno())
        written = sha256_of(beside)
        if sha256 and written != sha256:
            raise ValueError(f"{path}: what was to be put there has the SHA-256 {written} and not {sha256}")
        os.rename(beside, path)
    finally:
        remove(beside)
    fsync_folder(os.path.dirname(path))


def replace_link(path: str, leads_to: str) -> None:
    """The same for a symbolic link."""
    beside = _beside(path)
    remove(beside)
    os.symlink(leads_to, beside)
    os.rename(beside, path)
    fsync_folder(os.path.dirname(path))


def remove(path: str) -> bool:
    """Remove a file or a link; whether there was one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def fsync_folder(folder: str) -> None:
    """Returns once the names in a folder are on the disk."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def text_writer(text: str) -> Callable[[BinaryIO], None]:
    """Writes a text, for `replace`; bytes that were read by `surrogateescape` as they were."""

    def write(stream: BinaryIO) -> None:
        stream.write(text.encode("utf-8", "surrogateescape"))

    return write


def copier(source: str) -> Callable[[BinaryIO], None]:
    """Writes what is in another file, for `replace`.

    A little at a time to the disk: etcd, on the same one, waits for its own few bytes until all that was written before
    them is there, and answers nobody meanwhile.
    """

    def write(stream: BinaryIO) -> None:
        with open(source, "rb") as content:
            for block in iter(lambda: content.read(_AT_ONCE), b""):
                stream.write(block)
                stream.flush()
                os.fdatasync(stream.fileno())

    return write


def owner_of(path: str) -> Owner | None:
    """Whose a file is, or None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return Owner(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def _beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{_BESIDE}")
