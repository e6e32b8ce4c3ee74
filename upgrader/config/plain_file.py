"""Opens files that anyone may have put there: only regular ones, without waiting for what is behind another kind.

Opening a pipe waits for its other end, and reading a device may never end. What a path is may change at any moment, so
it is the opened file that is looked at, and not the path.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["MOST_BYTES", "open_plain", "read_plain"]

MOST_BYTES = 16 * 1024 * 1024
"""Far more than any file has that is read as a whole."""

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)  # a folder may be closed to reading


def open_plain(path: Path, *, links: bool = True) -> BinaryIO:
    """A regular file, opened to be read; without `links`, no part of its absolute path may be one by now.

    Raises OSError, also for anything else, and for a name that none can have.
    """
    try:
        opened = os.open(path, _READ) if links else _open_without_links(path)
    except ValueError as error:  # a NUL
        raise OSError(errno.EINVAL, f"no file can have this name: {error}", str(path)) from error
    try:
        mode = os.fstat(opened).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe, a socket or a device", str(path))
        return os.fdopen(opened, "rb")
    except OSError:
        os.close(opened)
        raise


def _open_without_links(path: Path) -> int:
    """Each folder is opened in the one before: what is checked of a path holds for the file that is opened by it."""
    folder = os.open(path.anchor, _FOLDER)
    try:
        for name in path.parts[1:-1]:
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(path.name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(folder)


def read_plain(path: Path, most_bytes: int = MOST_BYTES, *, links: bool = True) -> bytes:
    """The content of a regular file; `links` as above. Raises OSError, also for one that is larger."""
    with open_plain(path, links=links) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
    return content
