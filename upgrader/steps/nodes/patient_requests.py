"""Requests that outlive an API that doesn't answer for a while: it may be the one of a node that is worked on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from upgrader.ports import Clock
from upgrader.wait_and_retry import may_be_repeated, retry

__all__ = ["patiently"]

T = TypeVar("T")

_PAUSE_SECONDS = 1.0
_SECONDS = 120.0
"""How long an API that doesn't answer is tried again: it may be the kubelet of its own controller that is replaced."""


def patiently(clock: Clock, work: Callable[[], T], *, what: str, note: Callable[[str], None]) -> T:
    """Again where the API doesn't answer, or fails, or the object has changed since it was read. Raises ApiError.

    `note` is told for `what` it waits, as by `retry`.
    """

    def pause(error: Exception) -> float | None:
        return _PAUSE_SECONDS if may_be_repeated(error) else None

    return retry(clock, work, pause=pause, seconds=_SECONDS, what=what, note=note)
