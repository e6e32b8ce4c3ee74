"""Whether a watch told of every change exactly once. Pure: changes and events in, counts out."""

from __future__ import annotations

from collections import deque

__all__ = ["LATE_SECONDS", "Continuity"]

LATE_SECONDS = 10.0
"""An event that has not come this long after its change was acknowledged is missed."""
_REMEMBERED = 1000


class Continuity:
    """One watch's events held against the changes that the API has acknowledged.

    Both carry the object's resource version, which grows with every change (Kubernetes lets clients compare them), and
    a watch tells of changes in their order. So a change that is older than the newest event, and was not told, won't
    be any more; and an event that is not newer than the newest one is told again. Acknowledgements come from other
    connections, so they may be known before or after their event. Changes of others are told as well, and count as
    events only.
    """

    def __init__(self) -> None:
        self.events = self.missed = self.repeated = 0
        self._begun = self._newest = 0
        self._expired = False
        self._told: deque[int] = deque(maxlen=_REMEMBERED)
        self._expected: dict[int, float] = {}

    @property
    def position(self) -> int:
        """The version from which a watch goes on; 0 when it has to begin (anew)."""
        return 0 if self._expired else self._newest

    def begin(self, version: int) -> None:
        """The watch begins, or begins anew, with all that comes after `version`: what came before it isn't told."""
        self._begun = self._begun or version
        self._newest = max(self._newest, version)
        self._expired = False
        self._settle()

    def expired(self) -> None:
        """The server no longer knows what came after `position`."""
        self._expired = True

    def event(self, version: int) -> None:
        """A change was told."""
        self.events += 1
        if version <= self._newest:
            self.repeated += 1
            return
        self._newest = version
        self._told.append(version)
        self._settle()

    def passed(self, version: int) -> None:
        """The server says that it has told of everything up to `version` (a bookmark)."""
        self._newest = max(self._newest, version)
        self._settle()

    def changed(self, version: int, now: float) -> None:
        """A change was acknowledged."""
        if self._begun and version > self._begun:
            self._expected[version] = now
            self._settle()

    def overdue(self, now: float) -> bool:
        """Give up the events that are late, as missed; whether there were any."""
        late = [version for version, since in self._expected.items() if now - since > LATE_SECONDS]
        for version in late:
            del self._expected[version]
        self.missed += len(late)
        return bool(late)

    def _settle(self) -> None:
        for version in [version for version in self._expected if version <= self._newest]:
            del self._expected[version]
            self.missed += version not in self._told
