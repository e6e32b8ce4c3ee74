"""Runs of clusters as processes of this machine: `upgrader -C CLUSTER run`, which outlive their coordinator.

Each attempt has a folder: `events.jsonl` is what the command says, `log` what it tells people, `lock` is held by the
process for as long as it lives, whichever coordinator began it. So a coordinator that takes over sees whether it runs;
and by its last line, how it ended.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from upgrader.errors import UsageError
from upgrader.fleet.outcomes import CommandEnd, Sign, command_end

__all__ = ["EVENTS", "LocalExecutor"]

EVENTS = "events.jsonl"
"""What the command says, in the folder of an attempt."""
_LOCK, _LOG = "lock", "log"
_LAST_BYTES = 1 << 20
"""More than the last line of any command has."""


class LocalExecutor:
    """Begins runs, and says how far they are."""

    def __init__(
        self, program: Sequence[str] = (sys.executable, "-m", "upgrader"), *, environ: Mapping[str, str]
    ) -> None:
        self._program = tuple(program)
        self._environ = environ
        self._processes: list[subprocess.Popen[bytes]] = []

    def prepare(self, attempt: Path, arguments: Sequence[str]) -> Callable[[], None]:
        """What begins that run; its process reads the cluster's folder itself."""
        return partial(self.start, attempt, arguments)

    def start(self, attempt: Path, arguments: Sequence[str]) -> None:
        """Begin a run whose output goes to this folder, unless that attempt is running. Raises UsageError."""
        try:
            attempt.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(attempt / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"{attempt} can't be written: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return
        try:
            with (attempt / EVENTS).open("ab") as events, (attempt / _LOG).open("ab") as log:
                # A session of its own: Ctrl-C ends the coordinator, and no run.
                process = subprocess.Popen(
                    [*self._program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=events,
                    stderr=log,
                    env=dict(self._environ),
                    pass_fds=(lock,),
                    start_new_session=True,
                )
        except OSError as error:
            raise UsageError(f"{self._program[0]} can't be started: {error.strerror}") from error
        else:
            self._processes.append(process)
            with suppress(OSError):  # it has begun, also where the disk is full: this only names it for people
                os.ftruncate(lock, 0)
                os.pwrite(lock, str(process.pid).encode(), 0)
        finally:
            os.close(lock)

    def running(self, attempt: Path) -> bool:
        """Whether a process of this attempt lives. Raises UsageError if that can't be read."""
        self._processes = [each for each in self._processes if each.poll() is None]
        try:
            lock = os.open(attempt / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unreadable(attempt / _LOCK, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            raise _unreadable(attempt / _LOCK, error) from error
        finally:
            os.close(lock)
        return False

    def sign(self, attempt: Path) -> Sign:
        """When an attempt that is running has written something last, and its process. Raises UsageError if that can't
        be read.
        """
        try:
            number = (attempt / _LOCK).read_text()
            written = [(attempt / name).stat() for name in (EVENTS, _LOG)]
        except (OSError, ValueError) as error:
            raise UsageError(f"{attempt} can't be read: {error}", remedy="Fix its permissions, or the disk.") from error
        times = [each.st_mtime for each in written if each.st_size]
        return Sign(
            f"process {number}" if number else "its process", datetime.fromtimestamp(max(times), UTC) if times else None
        )

    def end(self, attempt: Path) -> CommandEnd | None:
        """How an attempt ended that isn't running; None if its process couldn't say. Raises UsageError for a file that
        can't be read.
        """
        try:
            with (attempt / EVENTS).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
                line = file.read().rstrip(b"\n").rpartition(b"\n")[2]
            return command_end(line)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(attempt / EVENTS, error) from error


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} can't be read: {error.strerror}", remedy="Fix its permissions, or the disk.")
