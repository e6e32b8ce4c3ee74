"""When pods were seen to become Ready, by this process's own clock: no clock that is set, here or at a kubelet, makes
one of them look older.

Of a pod that was Ready when it was first seen, it isn't known; nor of one that isn't Ready any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["ReadyTimes", "Readiness"]


class Readiness(Protocol):
    """What is needed of a pod."""

    @property
    def uid(self) -> str:
        """Its UID."""
        ...

    @property
    def ready_since(self) -> float | None:
        """As its condition says; None while it isn't Ready."""
        ...


class ReadyTimes:
    """By UID, of the pods that a watch shows."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` measures durations."""
        self._clock = clock
        self._became_ready: dict[str, float] = {}

    def changed(self, before: Readiness | None, after: Readiness | None) -> None:
        """A pod of this name was seen to change; None: there was none, or there is none any more."""
        if before is not None and (after is None or after.uid != before.uid):
            self._became_ready.pop(before.uid, None)
        if after is None:
            return
        if after.ready_since is None:
            self._became_ready.pop(after.uid, None)
        elif before is not None and before.uid == after.uid and before.ready_since != after.ready_since:
            self._became_ready[after.uid] = self._clock()

    def seen_by_another(self, uid: str) -> None:
        """Another process has seen it become Ready: at the latest now, if this one doesn't know better."""
        self._became_ready.setdefault(uid, self._clock())

    def seconds(self, uid: str) -> float | None:
        """For how many seconds a pod has been Ready; None if it wasn't seen to become so."""
        since = self._became_ready.get(uid)
        return None if since is None else self._clock() - since

    def forget(self) -> None:
        """All of them, as what pods do meanwhile isn't seen."""
        self._became_ready.clear()
