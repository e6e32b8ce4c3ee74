"""How tests wait: for something to be so, with a deadline that a busy machine stretches; and what they waited for.

A deadline of a test is how long something takes at worst on a machine that has nothing else to do. Here, and nowhere
else, it is stretched by how busy this one is: a second counts as a half while twice as much is to be run as there are
processors. So a deadline can be short enough to find what hangs, and no test fails because others run beside it.

What a test waited for is told by the logger `testkit.waiting`; `tests/durations.py` adds it up.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from upgrader.errors import ApiError

__all__ = ["LOGGER", "Patience", "slowness", "stretched", "until", "waiting"]

LOGGER = logging.getLogger("testkit.waiting")
"""Each record has `waited_for` and `seconds`."""

_MOST = 6.0
"""Slower than this is a machine that no test is meant for."""


def slowness() -> float:
    """How many times longer this machine takes than one that has nothing else to do: 1 to 6, by its load."""
    return _slowness(os.getloadavg()[0], os.cpu_count() or 1)


def _slowness(load: float, processors: int) -> float:
    return min(max(1.0, load / processors), _MOST)


def stretched(seconds: float) -> float:
    """The deadline for something that is waited for in one piece, such as a command."""
    return seconds * slowness()


class Patience:
    """A deadline: `left()` is False once so many seconds have passed, of a machine that has nothing else to do."""

    def __init__(
        self,
        seconds: float,
        *,
        now: Callable[[], float] = time.monotonic,
        slowness: Callable[[], float] = slowness,
    ) -> None:
        self._left = seconds
        self._now, self._slowness = now, slowness
        self._before = now()

    def left(self) -> bool:
        """Whether there is time left; the time since the last question is taken off first."""
        now = self._now()
        self._left -= (now - self._before) / self._slowness()
        self._before = now
        return self._left > 0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """What happens inside is waiting for `what`: "restore", "helm upgrade"."""
    begun = time.monotonic()
    try:
        yield
    finally:
        LOGGER.debug("%s", what, extra={"waited_for": what, "seconds": time.monotonic() - begun})


def until(what: str, holds: Callable[[], bool], *, timeout_seconds: float, interval_seconds: float = 0.5) -> float:
    """Wait until `holds()` (an unreachable API: False); returns the seconds, raises TimeoutError with `what`.

    The deadline is stretched as `Patience` says. After it, `holds()` is asked once more: a process that didn't run for
    a while has not waited.
    """
    begun, patience = time.monotonic(), Patience(timeout_seconds)
    late = False
    with waiting(f"until {what}"):
        while True:
            try:
                if holds():
                    return time.monotonic() - begun
                why = "it is not the case"
            except ApiError as error:
                why = error.message
            if late:
                raise TimeoutError(f"waited {time.monotonic() - begun:.0f} s for {what}: {why}")
            time.sleep(interval_seconds)
            late = not patience.left()
