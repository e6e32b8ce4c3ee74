"""Waits for something that somebody else brings about, and never for ever."""

from __future__ import annotations

from collections.abc import Callable

from upgrader.errors import ApiError
from upgrader.ports import Clock

__all__ = ["wait_until"]


def wait_until(clock: Clock, missing: Callable[[], str], *, seconds: float, interval_seconds: float = 1.0) -> str:
    """Ask every `interval_seconds` what is still missing, until that is nothing ("") or `seconds` have passed.

    Returns "", or what was missing when time was up: the caller says what that means. Asks at least once. An API that
    doesn't answer, or refuses, is one more thing that is missing: what it would have said is unknown.
    """
    deadline = clock.monotonic() + seconds
    while True:
        try:
            still = missing()
        except ApiError as error:
            still = error.message or "the API server gave no reason"
        if not still or clock.monotonic() >= deadline:
            return still
        clock.sleep(interval_seconds)
