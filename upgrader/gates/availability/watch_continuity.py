"""Whether a watch delivered every change exactly once. Pure: changes and events in, counts out."""

from __future__ import annotations

from collections import deque

__all__ = ["LATE_SECONDS", "Continuity"]

LATE_SECONDS = 10.0
"""An event that has not arrived this long after its change was acknowledged is missed."""
_REMEMBERED = 1000


class Continuity:
    """Compares one watch's events with the changes that the API has acknowledged.

    Both carry the object's resource version, which grows with every change (Kubernetes lets clients compare them), and
    a watch delivers changes in their order. So a change that is older than the newest event, and was not delivered,
    is missed; an event that is not newer than the newest one is repeated. Acknowledgements arrive on other
    connections, before or after their event. Changes by other clients are delivered too, and count as events only.
    """

    def __init__(self) -> None:
        self.events = self.missed = self.repeated = 0
        self._begun = self._newest = 0
        self._expired = False
        self._delivered: deque[int] = deque(maxlen=_REMEMBERED)
        self._expected: dict[int, float] = {}

    @property
    def position(self) -> int:
        """The version from which a watch continues; 0 when it has to start with a new list."""
        return 0 if self._expired else self._newest

    def begin(self, version: int) -> None:
        """The watch starts, or restarts, after `version`: it doesn't deliver earlier changes."""
        self._begun = self._begun or version
        self._newest = max(self._newest, version)
        self._expired = False
        self._settle()

    def expired(self) -> None:
        """The server no longer has the changes after `position`."""
        self._expired = True

    def event(self, version: int) -> None:
        """A change was delivered."""
        self.events += 1
        if version <= self._newest:
            self.repeated += 1
            return
        self._newest = version
        self._delivered.append(version)
        self._settle()

    def passed(self, version: int) -> None:
        """The server has delivered everything up to `version` (a bookmark)."""
        self._newest = max(self._newest, version)
        self._settle()

    def changed(self, version: int, now: float) -> None:
        """A change was acknowledged."""
        if self._begun and version > self._begun:
            self._expected[version] = now
            self._settle()

    def overdue(self, now: float) -> bool:
        """Count late events as missed; whether there were any."""
        late = [version for version, since in self._expected.items() if now - since > LATE_SECONDS]
        for version in late:
            del self._expected[version]
        self.missed += len(late)
        return bool(late)

    def _settle(self) -> None:
        for version in [version for version in self._expected if version <= self._newest]:
            del self._expected[version]
            self.missed += version not in self._delivered
