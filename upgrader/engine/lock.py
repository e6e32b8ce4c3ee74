"""One run at a time for each cluster folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upgrader.errors import Locked

__all__ = ["folder_lock"]


@contextmanager
def folder_lock(folder: Path, holder: str) -> Iterator[None]:
    """Hold `runs/.lock` of a cluster folder; raises Locked, naming who holds it. The kernel frees it on any exit."""
    path = folder / "runs" / ".lock"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            other = os.pread(file, 200, 0).decode(errors="replace").strip() or "another process"
            raise Locked(
                f"{folder} is being upgraded by {other}", remedy="Wait for it to end, or stop it first."
            ) from error
        os.ftruncate(file, 0)
        os.pwrite(file, holder.encode(), 0)
        yield
    finally:
        os.close(file)
