"""Standard error that neither fails nor waits, whatever becomes of the terminal.

A terminal takes no output after Ctrl-S, and while its SSH session hangs. Each write is done by a thread. Who writes
waits for it, so that standard output and standard error stay in their order; but not for a terminal that takes nothing.
"""

from __future__ import annotations

import atexit
import os
import select
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TextIO, cast

from upgrader.model.counted import counted

__all__ = ["outlast_the_terminal"]

_PATIENCE_SECONDS = 1.0
"""How long a write may take until the terminal counts as one that takes no output. Then no other one is waited for."""
_MOST = 1000
"""Texts that are kept for such a terminal; further ones are lost."""


class _LostTerminal:
    """A stream that keeps its output while the terminal takes none, and discards it once its reader is gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._file = stream, _file_of(stream)
        self._texts: SimpleQueue[tuple[str, threading.Event]] = SimpleQueue()
        self._late: threading.Event | None = None
        """Is set once the last text is written that no one has waited for."""
        self._lost = 0
        """Lines that were not kept, and are not yet named."""
        self._lock = threading.RLock()  # a signal handler may write while it is held
        self._begun = False
        self._alone = False
        """Whether no thread writes: none could be started, or the interpreter ends, and stops it wherever it is."""
        self._thread = threading.Thread(target=self._write_all, name="terminal", daemon=True)

    @property
    def behind(self) -> bool:
        """Whether there is output that the terminal hasn't taken yet: what is redrawn can be drawn later."""
        return self._late is not None and not self._late.is_set()

    def write(self, text: str) -> int:
        """As a text stream's; what was written is flushed."""
        written = threading.Event()
        with self._lock:
            if not self._begun:  # most commands write nothing here
                self._begun = True
                self._start()
            if self._alone:
                self._write(text)
                return len(text)
            behind = self.behind
            if behind and self._texts.qsize() >= _MOST:
                self._lost += text.count("\n")
                return len(text)
            self._texts.put((self._missing() + text, written))
            if behind:
                self._late = written
        if not behind and not written.wait(_PATIENCE_SECONDS):
            self._late = written
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError:  # as many processes as the system permits; or the interpreter ends
            self._alone = True
        else:
            atexit.register(self._end)

    def _write_all(self) -> None:
        while True:
            text, written = self._texts.get()
            try:
                with suppress(OSError, ValueError):  # it costs this text alone: without this thread, each would wait
                    self._write(text)
                    with self._lock:
                        missing = self._missing() if self._texts.empty() else ""
                    self._write(missing)
            finally:
                written.set()

    def _write(self, text: str) -> None:
        """By the system alone: a buffer that waits for the terminal has a lock, which the program's end needs."""
        if self._file is None:
            with suppress(OSError, ValueError):  # it was closed
                self._stream.write(text)
                self._stream.flush()
            return
        rest = text.encode(self._stream.encoding, self._stream.errors or "strict")
        while rest:
            try:
                rest = rest[os.write(self._file, rest) :]
            except BlockingIOError:  # another program has made it so, and shares it
                select.select([], [self._file], [])
            except OSError:
                _discard(self._file)

    def _missing(self) -> str:
        """Names the lines that were lost, once."""
        lost, self._lost = self._lost, 0
        where = "the terminal accepted no output. The journal and run.log of a run have all of it"
        return f"\n{counted(lost, 'line')} not shown: {where}.\n" if lost else ""

    def _end(self) -> None:
        """Nothing is left to do: the end of a command may wait for the terminal, and Ctrl-C ends that."""
        last = threading.Event()
        self._texts.put(("", last))
        with suppress(KeyboardInterrupt):
            last.wait()
            self._alone = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _file_of(stream: TextIO) -> int | None:
    """None for one that a program has put in its place."""
    try:
        return stream.fileno()
    except (OSError, AttributeError):
        return None


def _discard(file: int) -> None:
    """From now on every write succeeds and is discarded, in any thread and in libraries too."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, file, inheritable=True)
    os.close(null)


def outlast_the_terminal() -> None:
    """Lose only output on standard error when the terminal is closed, the reader of a log ends, or neither takes any.

    A run in progress must still end in order, and that includes its report.
    """
    sys.stderr = cast(TextIO, _LostTerminal(sys.stderr))
