"""`availability.jsonl` in a run's folder: one line for each sample, of all of the run's processes.

Only the report's curves are drawn from it: no decision. So it is written in a thread of its own, without waiting for
the disk, and whatever goes wrong costs lines, and nothing else.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from types import TracebackType
from typing import Any, Self

from upgrader.model.availability_series import AvailabilitySeries, Sample

__all__ = ["MAX_BYTES", "SERIES", "SeriesWriter", "read_series"]

SERIES = "availability.jsonl"
"""The file's name in a run's folder."""
MAX_BYTES = 16 * 2**20
"""It does not grow beyond this, which holds six days of one process: two hours by the second, then ten by ten."""

_WAITING = 600
"""How many batches of samples (two a second at most) may wait for a disk that hangs."""
_CLOSE_SECONDS = 5.0


class SeriesWriter:
    """Appends samples. A context manager: leaving it waits a moment for what is not written yet."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """Nothing is opened, and no thread started, before the first sample."""
        self.problem = ""
        """Why samples are missing in the file; "" while none is."""
        self._path = path
        self._max_bytes = max_bytes
        self._waiting: Queue[Sequence[Mapping[str, Any]] | None] = Queue(_WAITING)
        self._thread: Thread | None = None
        self._file = -1
        self._torn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        if self._waiting.full():  # for a disk that hangs: one batch gives way, so that the thread ends with the hang
            with suppress(Empty):
                self._waiting.get_nowait()
        self._waiting.put_nowait(None)
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            self.problem = "the disk does not respond"

    def append(self, samples: Sequence[Mapping[str, Any]]) -> None:
        """Write samples (`Sample.as_json`) soon. Neither waits nor raises; called from one thread only."""
        try:
            if self._thread is None:
                # A daemon: a disk that hangs doesn't keep the process from ending.
                thread = Thread(target=self._work, name=SERIES, daemon=True)
                thread.start()
                self._thread = thread
            self._waiting.put_nowait(samples)
        except Full:
            self.problem = "the disk was too slow for some samples"
        except RuntimeError as error:  # no more threads
            self.problem = str(error)

    def _work(self) -> None:
        while (samples := self._waiting.get()) is not None:
            try:
                self._write("".join(json.dumps(sample, separators=(",", ":")) + "\n" for sample in samples).encode())
            except OSError as error:
                # The next ones are tried again: a disk that was full may have room then.
                self._torn = True
                self.problem = f"some samples could not be written: {error.strerror or error}"
        if self._file >= 0:
            os.close(self._file)

    def _write(self, lines: bytes) -> None:
        if self._file < 0:
            self._file = self._opened()
        if os.fstat(self._file).st_size + len(lines) > self._max_bytes:
            self.problem = f"it has reached {self._max_bytes / 2**20:g} MiB, and takes no more samples"
            return
        left = memoryview((b"\n" if self._torn else b"") + lines)
        while left:
            left = left[os.write(self._file, left) :]
        self._torn = False

    def _opened(self) -> int:
        """The file, to append to it; a line that was torn when its process was killed is ended first."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(self._path, flags, 0o600)
        size = os.fstat(file).st_size
        self._torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        return file


def read_series(path: Path) -> AvailabilitySeries:
    """The samples in the file, by time; lines that are none are left out and counted. Never raises for the file."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return AvailabilitySeries(problem=f"{path.name} in the run's folder is not a file")
            content = file.read(2 * MAX_BYTES)
    except FileNotFoundError:
        return AvailabilitySeries(problem=f"the run's folder has no {path.name}")
    except OSError as error:
        return AvailabilitySeries(problem=f"{path.name} in the run's folder can't be read: {error.strerror}")
    samples, unreadable = [], 0
    for line in content.split(b"\n"):
        if not line:
            continue
        try:
            samples.append(Sample.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            unreadable += 1
    if not samples:
        return AvailabilitySeries(problem=f"{path.name} in the run's folder has no sample", unreadable=unreadable)
    return AvailabilitySeries(tuple(sorted(samples, key=lambda each: each.time)), unreadable=unreadable)
