"""Runs a command, and measures how long it takes and how much memory it needs, its children included."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Measured", "measured"]

_EVERY_SECONDS = 0.2


@dataclass(frozen=True)
class Measured:
    """How a command ended, and what it cost."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    cpu_seconds: float
    """Of it and its children."""
    largest_mib: float
    """Peak resident memory of its largest process, by the kernel's count (`ru_maxrss`)."""
    together_mib: float
    """The most that all its processes had at once, shared pages counted once (PSS), looked at five times a second."""


def measured(command: Sequence[str], folder: Path) -> Measured:
    """Run a command to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begun = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        ended, peaks = threading.Event(), [0.0]
        watcher = threading.Thread(target=_watch, args=(process.pid, ended, peaks))
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        watcher.join()
        return Measured(
            process.returncode,
            _text(out),
            _text(errors),
            seconds,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss / 1024,
            max(peaks),
        )


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _watch(process: int, ended: threading.Event, peaks: list[float]) -> None:
    while not ended.wait(_EVERY_SECONDS):
        peaks.append(sum(map(_mebibytes, _family(process))))


def _family(process: int) -> list[int]:
    """A process and all its descendants."""
    found = [process]
    for parent in found:
        try:
            found += [
                int(child)
                for thread in Path(f"/proc/{parent}/task").iterdir()
                for child in (thread / "children").read_text().split()
            ]
        except OSError:
            continue  # it has ended
    return found


def _mebibytes(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
