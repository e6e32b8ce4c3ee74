"""Delivers messages in a separate thread, one after the other: the sender never waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from upgrader.errors import UpgraderError

__all__ = ["Delivery"]

_Item = TypeVar("_Item")
_QUEUED = 50


class Delivery(Generic[_Item]):
    """A queue and its thread. The first failure is noted, and none after it."""

    def __init__(
        self, name: str, send: Callable[[_Item], None], failure: str, note: Callable[[str], None], *, of: str = "run"
    ) -> None:
        """`send` raises UpgraderError, OSError or ValueError; `failure` is the beginning of its note, and `of` is what
        continues.
        """
        self._send, self._failure, self._note = send, f"{failure}, but the {of} continues", note
        self._items: queue.Queue[_Item | None] = queue.Queue(_QUEUED)
        self._failed = False
        self._thread = threading.Thread(target=self._send_all, name=name, daemon=True)
        self._thread.start()

    def put(self, item: _Item) -> None:
        """Queue a message; messages beyond the limit are dropped."""
        self._put(item)

    def end(self) -> None:
        """No more messages will be queued."""
        self._put(None)

    def close(self, seconds: float) -> None:
        """Wait until the queue is sent, for so long at most; the result of the rest is not reported."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._tell("not everything was sent in time")
            self._note = lambda _: None

    def _put(self, item: _Item | None) -> None:
        try:
            self._items.put_nowait(item)
        except queue.Full:
            self._tell("too slow for the number of messages")

    def _send_all(self) -> None:
        while (item := self._items.get()) is not None:
            try:
                self._send(item)
            except (UpgraderError, OSError, ValueError) as error:
                self._tell(str(error))
            except Exception as error:  # noqa: BLE001  # a fault of ours must not end the thread: the rest is to be sent
                self._tell(f"{type(error).__name__}: {error}")

    def _tell(self, why: str) -> None:
        if not self._failed:
            self._failed = True
            self._note(f"{self._failure}: {why}")
