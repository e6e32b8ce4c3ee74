"""One run at a time for each cluster folder, on one machine. `cluster_lock.py` excludes other machines and folders."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from upgrader.config.plain_file import open_plain
from upgrader.errors import Locked, UsageError
from upgrader.ports import Clock
from upgrader.wait_and_retry import retry

__all__ = ["FolderHolder", "folder_holder", "folder_lock", "lock_identity"]

_TRIES = 5
_PAUSE_SECONDS = 0.05
_NAME_BYTES = 200


@dataclass(frozen=True)
class FolderHolder:
    """Who holds a folder's lock, and since when (UTC)."""

    holder: str
    since: datetime


@contextmanager
def folder_lock(folder: Path, holder: str, clock: Clock, *, status: str = "upgrader status") -> Iterator[None]:
    """Hold `runs/.lock` of a cluster folder, or of a fleet's; `status` is the command that shows what its holder does.
    The kernel frees it on any exit.

    Raises Locked, naming who holds it, and UsageError where the folder can't be written or locked.
    """
    file = _opened(folder)
    try:
        try:
            # `folder_holder` holds the lock for a moment, which must not fail a run.
            retry(clock, lambda: _take(file), pause=_pause, attempts=_TRIES)
        except BlockingIOError:
            other = _holder(file)
            raise Locked(
                f"{folder} is locked by {other.holder} since {other.since:%Y-%m-%d %H:%M:%SZ}",
                remedy=f"Wait for it to end, or stop it first; `{status}` shows what it is doing.",
            ) from None
        except OSError as error:
            raise _without_locks(folder, error) from error
        with suppress(OSError):  # a full disk: the name only informs
            os.ftruncate(file, 0)
            os.pwrite(file, holder.encode()[:_NAME_BYTES], 0)
        yield
    finally:
        os.close(file)


def _opened(folder: Path) -> int:
    path = _path(folder)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"{path.parent} can't be written: {error.strerror}",
            remedy="Runs keep their lock and journal there. Use a copy of the cluster folder that this user can "
            f"write, for `recover` too: `cp -a {folder} COPY`, then the same command with -C COPY.",
        ) from error


def folder_holder(folder: Path) -> FolderHolder | None:
    """Who holds a folder's lock now; None when it is free. Raises UsageError where that can't be read."""
    path = _path(folder)
    try:
        with open_plain(path) as opened:  # a pipe in another team's folder would be waited for
            file = os.dup(opened.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"{path} can't be read: {error.strerror}; active and past runs of this folder are unknown",
            remedy=f"Run it as the user who runs upgrader in this folder: only the owner can read {path.parent}.",
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(file)
    except OSError as error:
        raise _without_locks(folder, error) from error
    else:
        return None
    finally:
        os.close(file)


def lock_identity(folder: Path) -> str:
    """Identifies a folder's lock file, its machine and the machine's boot; "" when that is unknown.

    Only one process can hold that lock: so a cluster's lock that another process took under it is free.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        file = _path(folder).stat()
    except OSError:
        return ""
    return f"{boot}:{file.st_dev}:{file.st_ino}"


def _without_locks(folder: Path, error: OSError) -> UsageError:
    """Of NFS whose server has no lock manager, and of some file systems of containers."""
    return UsageError(
        f"{_path(folder)} can't be locked: {error.strerror}; a second run could begin beside this one",
        remedy="Start the file system's lock manager (of NFS: rpc.statd and lockd), or use a copy of the cluster "
        f"folder on a local disk: `cp -a {folder} COPY`, then the same command with -C COPY.",
    )


def _take(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _pause(error: Exception) -> float | None:
    return _PAUSE_SECONDS if isinstance(error, BlockingIOError) else None


def _holder(file: int) -> FolderHolder:
    name = os.pread(file, _NAME_BYTES, 0).decode(errors="replace").strip()
    return FolderHolder(name or "another process", datetime.fromtimestamp(os.fstat(file).st_mtime, UTC))


def _path(folder: Path) -> Path:
    return folder / "runs" / ".lock"
