"""Signals to end, for a process that is there for another one. It imports next to nothing, so that it can come first:
the rest of a program takes seconds to import.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["EndSignals", "end_signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class EndSignals:
    """Which of them have come, and the process that they are for."""

    def __init__(self) -> None:
        self._come: list[int] = []
        self._run: subprocess.Popen[bytes] | None = None

    @property
    def told(self) -> bool:
        """Whether one has come."""
        return bool(self._come)

    def take(self, number: int) -> None:
        """One has come: hand it on, if there is a process."""
        self._come.append(number)
        if self._run is not None:
            self._run.send_signal(number)

    def hand_on(self, run: subprocess.Popen[bytes]) -> None:
        """Have this process get those that come from now on, and those that came before."""
        self._run = run
        for number in tuple(self._come):
            run.send_signal(number)

    def have_ended(self, code: int) -> bool:
        """Whether one of them has ended that process, which returned `code`, before it could take it."""
        return -code in self._come


@contextmanager
def end_signals() -> Iterator[EndSignals]:
    """Until the end of the block, no such signal ends this process."""
    signals = EndSignals()
    before = {each: signal.signal(each, lambda number, _: signals.take(number)) for each in _SIGNALS}
    try:
        yield signals
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
