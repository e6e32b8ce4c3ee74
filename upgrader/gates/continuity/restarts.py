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
        self.given_up = False
        """Whether something was broken: it has had its time."""

    def works(self, name: str) -> None:
        """It doesn't fail, or what it fails with says that it restarts: its time begins anew."""
        self._since.pop(name, None)

    def fails(self, name: str, lost: Lost, until_certain: Verdict | None = None) -> Verdict:
        """Pending, or what the caller says instead, and broken once it has failed for long."""
        now, remedy = self._clock.monotonic(), f"{lost.remedy} {_BY_ITSELF}"
        if now - self._since.setdefault(name, now) >= PATIENCE_SECONDS:
            self.given_up = True
            return broken(lost.reason, remedy=remedy)
        return until_certain or pending(lost.reason, remedy=remedy)
