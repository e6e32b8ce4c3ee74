"""How tests end early: by Ctrl-C, SIGTERM (CI), or SIGHUP (a closed terminal), and always with their clusters removed.

A plugin. The first signal ends the tests. The later ones do nothing, as they would end the removal of clusters.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

import pytest

__all__ = ["pytest_configure", "pytest_sessionstart"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interruption:
    """What has come of it."""

    def __init__(self) -> None:
        self.came = False
        self.session: pytest.Session | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt the first time."""
        name = signal.Signals(number).name
        if self.came:
            with suppress(OSError):  # of a terminal that was closed
                os.write(2, f"{name}: the tests are ending already, and remove their clusters\n".encode())
            return
        self.came = True
        if self.session is not None:  # the exception may come where none is passed on, as in a destructor
            self.session.shouldstop = name
        raise KeyboardInterrupt(name)


_key = pytest.StashKey[_Interruption]()


def pytest_configure(config: pytest.Config) -> None:
    """Handle the signals that this process doesn't ignore: after `nohup`, it ignores SIGHUP."""
    interruption = config.stash[_key] = _Interruption()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interruption)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tell the handler which session to stop."""
    session.config.stash[_key].session = session
