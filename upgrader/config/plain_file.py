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


def open_plain(path: Path) -> BinaryIO:
    """A regular file, opened to be read. Raises OSError, also for anything else, and for a name that none can have."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
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


def read_plain(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a regular file. Raises OSError, also for one that is larger."""
    with open_plain(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
    return content
