"""A private folder of upgrader's programs on this host, used by one program at a time."""

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
    """Create a folder that only root may enter. Raises Failed if another user owns it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise Failed(f"{folder} must be a folder that only root can read: check its content, then remove it")


@contextlib.contextmanager
def locked(folder: str, seconds: float, busy: str) -> Iterator[None]:
    """Lock the folder, which is created: a program may outlive its SSH connection. Raises Failed with `busy` if another
    program still holds the lock after that time.
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
