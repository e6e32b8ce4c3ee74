"""How an operator stops a run: the first request stops it where that is safe, the second at once."""

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
        """Another process has taken over: begin nothing more, not even the rollback of a failed step."""
        self.reason = reason
        self.requested = self._at_once = True

    def check(self, *, safe: bool) -> None:
        """Raise Interrupted when a stop was requested, and stopping is `safe` here or required."""
        if self.requested and (safe or self._at_once):
            raise Interrupted(
                self.reason, remedy="Resume it with `upgrader resume`, or undo it with `upgrader rollback`."
            )


class _StoppedAtOnce(KeyboardInterrupt):
    """Not KeyboardInterrupt itself: once that has left an `exec`, as of a dataclass that is being imported, Python ends
    the process by SIGINT, and not with its exit code, although it was caught.
    """


@contextmanager
def stop_on_signals(request: StopRequest, notify: Callable[[str], None]) -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into a request, a further SIGINT or SIGTERM into KeyboardInterrupt.

    A closed terminal is never "once more": the shell and the system both send SIGHUP for it.

    Outside the main thread, signals are left to the caller.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if request.requested:
            if number == signal.SIGHUP:
                return
            raise _StoppedAtOnce
        request.requested = True
        with suppress(RuntimeError):  # raised when the signal interrupts a write to the same stream
            notify("Stopping after the current step (interrupt again to stop now)")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
