"""How an operator stops a run: once, and it stops where that is safe; twice, and it stops now."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from upgrader.errors import Interrupted

__all__ = ["StopRequest", "stop_on_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Whether the run was asked to stop."""

    def __init__(self) -> None:
        self.requested = False
        self.reason = "stopped on request"
        self._at_once = False

    def forbid(self, reason: str) -> None:
        """Another process decides from now on: nothing more may be begun, not even the rollback of a failed step."""
        self.reason = reason
        self.requested = self._at_once = True

    def check(self, *, safe: bool) -> None:
        """Raise Interrupted when a stop was asked for, and stopping is `safe` here or must be done anyway."""
        if self.requested and (safe or self._at_once):
            raise Interrupted(
                self.reason, remedy="Resume it with `upgrader resume`, or undo it with `upgrader rollback`."
            )


@contextmanager
def stop_on_signals(request: StopRequest, tell: Callable[[str], None]) -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into a request, the second into KeyboardInterrupt.

    In any other thread than the main one, signals are the caller's to handle.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if request.requested:
            raise KeyboardInterrupt
        request.requested = True
        with suppress(RuntimeError):  # Python's, where it came in the middle of a write to the same stream
            tell("Stopping after the current step (once more: stop now)")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
