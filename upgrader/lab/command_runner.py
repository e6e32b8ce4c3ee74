"""Runs the lab's commands, and tracks them, so that Ctrl-C ends all of them at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from upgrader.errors import LabError

__all__ = ["CommandRunner"]


class CommandRunner:
    """Runs commands from several threads until it is cancelled; then ends the running ones and starts no more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._cancelled = False

    def run(self, command: Sequence[str], *, what: str, stdin: str | Path = "", timeout_seconds: float = 60) -> str:
        """Standard output of a command; raises LabError, with its last output, if it fails or times out.

        `stdin` is text, or the file to read.
        """
        if isinstance(stdin, Path):
            with stdin.open("rb") as stream:
                process = self._start(command, stream.fileno(), subprocess.PIPE, subprocess.PIPE)
        else:
            process = self._start(command, subprocess.PIPE, subprocess.PIPE, subprocess.PIPE)
        try:
            out, err = process.communicate(stdin if isinstance(stdin, str) else None, timeout=timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{what}: not done after {timeout_seconds:.0f} s") from error
        finally:
            self._end(process)
        if process.returncode:
            last = "\n".join((err.strip() or out.strip()).splitlines()[-12:])
            raise LabError(f"{what} failed (exit {process.returncode}): {last}")
        return out

    def spawn(self, command: Sequence[str], log: Path) -> int:
        """Start a process that outlives this one, its output appended to `log`; returns its pid."""
        program = shutil.which(command[0])
        if not program:
            raise LabError(f"{command[0]} is not installed")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        with self._lock:
            if self._cancelled:
                raise LabError("cancelled")
            return os.posix_spawn(program, list(command), os.environ, file_actions=actions, setsid=True)

    def cancel(self) -> None:
        """End running commands, and refuse new ones."""
        with self._lock:
            self._cancelled = True
            for process in self._running:
                process.kill()

    def together(self, jobs: Sequence[Callable[[], object]]) -> None:
        """Run jobs at the same time, each in a thread; if one fails, or on Ctrl-C, cancel the others and raise."""
        with ThreadPoolExecutor(max_workers=max(1, len(jobs))) as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.cancel()
                raise

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def _start(self, command: Sequence[str], stdin: int, out: int, err: int) -> subprocess.Popen[str]:
        with self._lock:
            if self._cancelled:
                raise LabError("cancelled")
            try:
                # A session of its own: Ctrl-C on the terminal reaches only this process, which then ends its children.
                process = subprocess.Popen(
                    command, stdin=stdin, stdout=out, stderr=err, text=True, start_new_session=True
                )
            except FileNotFoundError as error:
                raise LabError(f"{command[0]} is not installed", remedy="upgrader lab build") from error
            self._running.add(process)
            return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.kill()
            process.wait()
        with self._lock:
            self._running.discard(process)
