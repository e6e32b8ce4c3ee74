"""How tests wait for a condition: with a deadline that a busy machine stretches, and a record of the waiting.

A deadline of a test is how long something takes at worst on an idle machine. Only here is it stretched by the load: a
second counts as a half while twice as many processes are runnable as there are processors. So a deadline can be short
enough to find what hangs, and no test fails because others run beside it.

The logger `testkit.waiting` records what a test waited for; `tests/durations.py` adds it up.
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
"""No test is meant for a slower machine."""


def slowness() -> float:
    """How many times longer this machine takes than an idle one: 1 to 6, by its load."""
    return _slowness(os.getloadavg()[0], os.cpu_count() or 1)


def _slowness(load: float, processors: int) -> float:
    return min(max(1.0, load / processors), _MOST)


def stretched(seconds: float) -> float:
    """The deadline for a single wait, such as for a command."""
    return seconds * slowness()


class Patience:
    """A deadline: `left()` is False after this many seconds of an idle machine."""

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
        """Whether there is time left; the time since the last call is subtracted first."""
        now = self._now()
        self._left -= (now - self._before) / self._slowness()
        self._before = now
        return self._left > 0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Everything inside waits for `what`: "restore", "helm upgrade"."""
    begun = time.monotonic()
    try:
        yield
    finally:
        LOGGER.debug("%s", what, extra={"waited_for": what, "seconds": time.monotonic() - begun})


def until(what: str, holds: Callable[[], bool], *, timeout_seconds: float, interval_seconds: float = 0.5) -> float:
    """Wait until `holds()` (an unreachable API: False); returns the seconds, raises TimeoutError with `what`.

    The deadline is stretched as `Patience` says. After it, `holds()` is called once more: a process that wasn't
    scheduled for a while has not waited.
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
