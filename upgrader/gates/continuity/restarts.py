"""What others serve may just restart: it has half a minute, and then it is lost."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.model.outcome import Verdict, broken, pending
from upgrader.ports import Clock

__all__ = ["PATIENCE_SECONDS", "Lost", "RestartWatch"]

PATIENCE_SECONDS = 30.0
_BY_ITSELF = "If it fails after the rollback, too, it has ended by itself: repair it before you run again."


@dataclass(frozen=True)
class Lost:
    """What worked before the run and fails now, in words, and how to repair it."""

    reason: str
    remedy: str


class RestartWatch:
    """Since when each thing has failed without a break."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def works(self, name: str) -> None:
        """It doesn't fail, or what it fails with says that it restarts: its time begins anew."""
        self._since.pop(name, None)

    def fails(self, name: str, lost: Lost) -> Verdict:
        """Pending, and broken once it has failed for long."""
        now = self._clock.monotonic()
        certain = now - self._since.setdefault(name, now) >= PATIENCE_SECONDS
        return (broken if certain else pending)(lost.reason, remedy=f"{lost.remedy} {_BY_ITSELF}")
