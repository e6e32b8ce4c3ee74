"""A folder of this host that belongs to what is sent here, and one program at a time that works in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator

from upgrader.onhost.common.questions import Failed

__all__ = ["locked", "make_private"]

_AGAIN_SECONDS = 0.2


def make_private(folder: str) -> None:
    """Make a folder that only root may enter. Raises Failed where it is anybody else's."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise Failed(f"{folder} must be a folder that only root can read: look at what is in it, then remove it")


@contextlib.contextmanager
def locked(folder: str, seconds: float, busy: str) -> Iterator[None]:
    """Keep others out of the folder, which is made: what was sent here may outlive its SSH connection.

    Raises Failed with `busy` where another one works in it for so long.
    """
    make_private(folder)
    until = time.monotonic() + seconds
    with open(os.path.join(folder, "lock"), "ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise Failed(busy) from None
            time.sleep(_AGAIN_SECONDS)
        yield
