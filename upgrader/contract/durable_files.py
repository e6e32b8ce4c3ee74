"""Files that are put in place whole, and stay so after a power cut.

It imports the standard library alone, and is Python 3.8's: programs on hosts and the pod-checkpointer import it as the
runner does, and the modules of the playbooks have it as a file of their role.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    Name = str | os.PathLike[str]
    Content = bytes | Callable[[BinaryIO], object]
    """Bytes, or what writes them into the file that it is given."""

__all__ = [
    "OWN",
    "TEMPORARY",
    "Owner",
    "copier",
    "link_over",
    "own",
    "owner_of",
    "remove",
    "replace",
    "replace_link",
    "rewrite",
    "sha256_of",
    "sync_folder",
    "text_writer",
    "write",
]

TEMPORARY = ".tmp-"
"""Names of unfinished things start with it: the kubelet reads no file whose name starts with a dot."""

_BESIDE = ".upgrader-new"
"""The suffix of a file that is being written. systemd reads no drop-in of that name."""

_AT_ONCE = 4 << 20
"""Bytes."""

_NO_FOLDERS = frozenset({errno.EBADF, errno.EINVAL, errno.EOPNOTSUPP})
"""How CIFS, and file systems that a container or a virtual machine shares with its host, refuse to sync a folder."""

_LABEL = "security.selinux"
"""The attribute of a file that holds its label."""


class Owner(NamedTuple):
    """Whose a file is, and who may do what with it; -1: whose process makes it."""

    mode: int = 0o600
    uid: int = -1
    gid: int = -1


OWN = Owner()
"""Of the process that makes it, and only its owner can read it."""


def owner_of(path: Name) -> Owner | None:
    """Whose a file is, or None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return Owner(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def sha256_of(path: Name) -> str:
    """The SHA-256 of a file's content, or "" where there is no such file."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()


def write(path: Name, content: Content, owner: Owner = OWN) -> None:
    """A new file in place of any that has its name, on the disk; its folder isn't synced.

    Its content is never readable by more than its owner's mode allows, not even for a moment.
    """
    remove(path)
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(number, "w+b") as stream:
        if isinstance(content, bytes):
            stream.write(content)
        else:
            content(stream)
        stream.flush()
        own(number, owner)
        os.fsync(number)


def own(number: int, owner: Owner) -> None:
    """Give an open file or folder its owner, and then its mode: chown clears bits that chmod sets."""
    if (owner.uid, owner.gid) != (-1, -1):
        os.fchown(number, owner.uid, owner.gid)
    os.fchmod(number, stat.S_IMODE(owner.mode))


def replace(path: Name, content: Content, owner: Owner = OWN, *, sha256: str = "", beside: Name = "") -> None:
    """Write a file beside `path`, onto the disk, and rename it: there is the old file or the new one, never a part.

    It keeps the label by which SELinux knows the old one. With `sha256`, what was written must have it. `beside` is
    where it is written; processes that may do so at the same time have to name different ones. Raises ValueError where
    the SHA-256 is another one, OSError where the disk is full.
    """
    beside = beside or _beside(path)
    try:
        write(beside, content, owner)
        if sha256 and (written := sha256_of(beside)) != sha256:
            raise ValueError(f"{os.fspath(path)}: the new content has the SHA-256 {written}, not {sha256}")
        _keep_label(path, beside)
        os.rename(beside, path)
    except BaseException:
        remove(beside)
        raise
    _sync_folder_of(path)


def rewrite(path: Name, content: Content) -> None:
    """Replace a file, whose mode and owner stay. Where there is none, only the owner of the new one can read it."""
    replace(path, content, owner_of(path) or OWN)


def replace_link(path: Name, leads_to: str) -> None:
    """`replace` for a symbolic link."""
    beside = _beside(path)
    remove(beside)
    os.symlink(leads_to, beside)
    os.rename(beside, path)
    _sync_folder_of(path)


def link_over(path: Name, source: Name) -> None:
    """`replace` with a second name for a file that is there already: needs no room on a full disk."""
    beside = _beside(path)
    remove(beside)
    os.link(source, beside)
    os.rename(beside, path)
    _sync_folder_of(path)


def remove(path: Name) -> bool:
    """Remove a file or a link; whether there was one. Its folder isn't synced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        return True
    return False


def sync_folder(folder: Name) -> None:
    """Returns once the names in a folder are on the disk, where its file system can do that with a folder."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NO_FOLDERS:
            raise
    finally:
        os.close(number)


def text_writer(text: str) -> Callable[[BinaryIO], object]:
    """Writes a text; bytes that were read by `surrogateescape` as they were."""
    return lambda stream: stream.write(text.encode("utf-8", "surrogateescape"))


def copier(source: Name, read: Callable[[Name, str], Any] = open) -> Callable[[BinaryIO], object]:
    """Writes what is in another file, as `read` opens it: `gzip.open` unpacks it.

    A little at a time to the disk: etcd, on the same one, waits for its own few bytes until all that was written before
    them is there, and answers nothing meanwhile.
    """

    def copy(stream: BinaryIO) -> None:
        with read(source, "rb") as content:
            for block in iter(lambda: content.read(_AT_ONCE), b""):
                stream.write(block)
                stream.flush()
                os.fdatasync(stream.fileno())

    return copy


def _keep_label(path: Name, new: Name) -> None:
    """Without SELinux, and where the old file isn't there, there is none; its folder gives the new one a label then.

    Python has these calls on Linux alone, and the runner's own files may be elsewhere.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(new, _LABEL, os.getxattr(path, _LABEL))


def _beside(path: Name) -> str:
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(folder, f"{TEMPORARY}{name}{_BESIDE}")


def _sync_folder_of(path: Name) -> None:
    sync_folder(os.path.dirname(os.fspath(path)) or ".")
