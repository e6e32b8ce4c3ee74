"""Requests that outlive an API that doesn't answer for a while: it may be the one of a node that is worked on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.ports import Clock
from upgrader.wait_and_retry import retry

__all__ = ["patiently"]

T = TypeVar("T")

_CONFLICT = 409
_PAUSE_SECONDS = 1.0
_SECONDS = 120.0
"""How long an API that doesn't answer is tried again: it may be the kubelet of its own controller that is replaced."""


def patiently(clock: Clock, work: Callable[[], T]) -> T:
    """Again where the API doesn't answer, or the object has changed since it was read. Raises ApiError."""

    def pause(error: Exception) -> float | None:
        passes = isinstance(error, ApiUnavailable) or (isinstance(error, ApiError) and error.status == _CONFLICT)
        return _PAUSE_SECONDS if passes else None

    return retry(clock, work, pause=pause, seconds=_SECONDS)
