"""What others serve may just restart: it has some time, and then it is lost."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.model.outcome import Verdict, broken, pending
from upgrader.ports import Clock

__all__ = ["SERVICE_SECONDS", "Lost", "RestartWatch", "Restarts"]

_CONVERSION_SECONDS = 30.0
SERVICE_SECONDS = 65.0
"""Half a minute to restart, and as long until Kubernetes asks a backend again that didn't answer, with its timeouts.

Until then kube-apiserver answers 503 in its place.
"""
_FEW_ROUNDS = 3
_BY_ITSELF = "If it fails after the rollback, too, it has ended by itself: repair it before you run again."


@dataclass(frozen=True)
class Lost:
    """What worked before the run and fails now, in words, and how to repair it."""

    reason: str
    remedy: str


class RestartWatch:
    """How long each thing has failed without a break, as far as it was asked."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        """`seconds`: how long it may fail."""
        self._clock, self._seconds = clock, seconds
        self._since: dict[str, float] = {}
        self.given_up = False
        """Whether something was broken: it has had its time."""
        self._asked = clock.monotonic()
        """When it was last asked, or skipped."""
        self._skipped = 0
        """How many rounds in a row nothing was asked."""

    def works(self, name: str) -> None:
        """It doesn't fail, or what it fails with says that it restarts: its time begins anew."""
        self._answered()
        self._since.pop(name, None)

    def fails(self, name: str, lost: Lost, until_certain: Verdict | None = None) -> Verdict:
        """Pending, or what the caller says instead, and broken once it has failed for long."""
        now, remedy = self._answered(), f"{lost.remedy} {_BY_ITSELF}"
        if now - self._since.setdefault(name, now) >= self._seconds:
            self.given_up = True
            return broken(lost.reason, remedy=remedy)
        return until_certain or pending(lost.reason, remedy=remedy)

    def skip(self) -> None:
        """A round in which nothing was asked doesn't count; after a few, what failed before says nothing of now."""
        now = self._clock.monotonic()
        self._skipped += 1
        spent = now - self._asked
        known = self._since if self._skipped <= _FEW_ROUNDS else {}
        self._since = {name: since + spent for name, since in known.items()}
        self._asked = now

    def _answered(self) -> float:
        self._skipped, self._asked = 0, self._clock.monotonic()
        return self._asked


class Restarts:
    """Of the objects that webhooks convert, and of aggregated APIs; kept for all gates of a run."""

    def __init__(self, clock: Clock) -> None:
        self.conversions = RestartWatch(clock, _CONVERSION_SECONDS)
        self.services = RestartWatch(clock, SERVICE_SECONDS)

    @property
    def given_up(self) -> bool:
        """Whether one of them was broken: it has had its time."""
        return self.conversions.given_up or self.services.given_up
