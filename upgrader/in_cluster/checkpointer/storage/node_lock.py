"""Which of this node's instances acts: the one that holds the lock. And who changes files just now."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.02


@contextmanager
def changing(path: Path, wait_seconds: float, sleep: Callable[[float], None] = time.sleep) -> Iterator[bool]:
    """Hold the lock on the right to change files, so that an operator's `restore` and a pass don't interleave. Waits up
    to `wait_seconds` for another holder, and yields whether the lock is held: what is done without it is still atomic
    file by file, so that a holder that hangs can't keep the node from being served.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # for example a full disk
        yield False
        return
    try:
        yield _locked(handle, int(wait_seconds / _POLL_SECONDS), sleep)
    finally:
        os.close(handle)


def _locked(handle: int, polls: int, sleep: Callable[[float], None]) -> bool:
    for left in range(polls, -1, -1):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                sleep(_POLL_SECONDS)
        else:
            return True
    return False


class NodeLock:
    """A flock on a file of the node. The kernel frees it when its holder dies, however it dies.

    `port`: where this instance answers. The holder writes it into the file for the one that stands by: the ports that
    that one was given need not be those of a holder of another version.
    """

    def __init__(self, path: Path, port: int) -> None:
        self._path, self._port = path, port
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Whether this instance holds the lock now; never waits. Raises OSError when the file can't be used."""
        if self._handle is not None and self._is_current(self._handle):
            return True
        self.release()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        if not self._is_current(handle):
            os.close(handle)
            return False
        self._handle = handle
        with contextlib.suppress(OSError):  # a full disk is no reason not to act
            os.truncate(handle, os.pwrite(handle, f"{self._port}\n".encode(), 0))
        return True

    def holders_port(self) -> int | None:
        """Where the holder, or the last one, answers; None when the file doesn't name it."""
        try:
            text = self._path.read_text().strip()
        except (OSError, ValueError):
            return None
        return int(text) if text.isdecimal() and 0 < int(text) < 65536 else None

    def release(self) -> None:
        """Let another instance act."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _is_current(self, handle: int) -> bool:
        """Whether the path still leads to the locked file: after it was deleted, two instances could hold "the"
        lock.
        """
        try:
            at_path = self._path.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(handle)
        return (held.st_dev, held.st_ino) == (at_path.st_dev, at_path.st_ino)
