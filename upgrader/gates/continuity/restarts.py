"""What others serve may just restart: it has some time, and then it is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upgrader.model.outcome import Verdict, broken, pending
from upgrader.ports import Clock

__all__ = ["RESTART_SECONDS", "WITHOUT_PODS_SECONDS", "Lost", "RestartWatch", "Restarts"]

RESTART_SECONDS = 30.0
"""For what is seen at once when it is there again."""
WITHOUT_PODS_SECONDS = 60.0
"""For a Service behind which no pod starts: kube-controller-manager makes one at once, or after some time without its
Lease.
"""
_FOUND_AGAIN_SECONDS = 6.0
"""In which a kube-apiserver finds that a webhook is there again; one that has just started asks each backend of an
aggregated API as often: what didn't answer is asked after 5 ms, and then after twice as long each time.
"""
_SERVICE_SECONDS = 65.0
"""Half a minute to restart, and as long until Kubernetes asks a backend again that didn't answer, with its timeouts.

Until then kube-apiserver answers 503 in its place. A backend that was back after 28 s was served after 54. Nothing else
says sooner that it is back: `services/proxy` takes only endpoints that are pods, whose restarts Kubernetes sees at
once.
"""
_ASKED_AGAIN_SECONDS = 35.0
"""Within which Kubernetes asks a backend again, as the condition follows late."""
_FEW_LOOKS_SECONDS = 4.0
"""For what fails behind an undo, once a gate has given it up: the undo's own gates have taken time, too."""
_FEW_ROUNDS = 3
_ENOUGH_ANSWERS = 4
"""So many in a row, over all of its time, are certain: further ones would only take time."""
_BY_ITSELF = "If it still fails after the rollback, the run did not cause this: repair it before you start another run."


@dataclass(frozen=True)
class Lost:
    """What worked before the run and fails now: its name, why in words, and how to repair it."""

    name: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class _Failing:
    """What has failed without a break."""

    since: float
    """Monotonic."""
    seconds: float
    """How long it may."""
    answers: int = 0

    @property
    def until(self) -> float:
        """When its time is over (monotonic)."""
        return self.since + self.seconds


class RestartWatch:
    """How long each thing has failed without a break, as far as it was asked."""

    def __init__(self, clock: Clock, seconds: float, again: float) -> None:
        """`seconds`: how long it may fail. `again`: how long behind an undo it may, once it was given up."""
        self._clock, self._seconds, self._again = clock, seconds, again
        self._failing: dict[tuple[str, str], _Failing] = {}
        self._given_up: set[tuple[str, str]] = set()
        """What was broken: it has had its time to restart. With the instance that was asked."""
        self._asked = clock.monotonic()
        """When it was last asked, or skipped."""
        self._skipped = 0
        """How many rounds in a row nothing was asked."""

    def works(self, name: str, server: str = "") -> None:
        """It doesn't fail, or what it fails with says that it restarts: its time begins anew."""
        self._answered()
        self._failing.pop((name, server), None)
        self._given_up.discard((name, server))

    def fails(
        self, lost: Lost, server: str = "", until_certain: Verdict | None = None, *, seconds: float | None = None
    ) -> Verdict:
        """Pending, or what the caller says instead, and broken once it has failed for long: for `seconds`, where what
        it fails with says how long that is. Less time than what it failed with before begins only now.
        """
        at, now, remedy = (lost.name, server), self._answered(), f"{lost.remedy} {_BY_ITSELF}"
        seconds = self._seconds if seconds is None else seconds
        known = self._failing.get(at)
        if known is None or seconds < known.seconds:
            known = _Failing(now, seconds)
        failing = self._failing[at] = replace(known, seconds=seconds, answers=known.answers + 1)
        if now >= failing.until:
            self._given_up.add(at)
            return replace(broken(lost.reason, remedy=remedy), certain=failing.answers >= _ENOUGH_ANSWERS)
        # Another one, or the same at another instance, may be the first whose time is over.
        first = min(each.until for each in self._failing.values())
        return replace(until_certain or pending(lost.reason, remedy=remedy), again_at=first)

    def is_lost(self, name: str, *, fails: float, undone: float, restarted: bool) -> bool:
        """Whether it has had its time behind an undo: it has failed for `fails` seconds there, and the undo has been in
        place for `undone` seconds, and has `restarted` kube-apiserver or not. What a gate has given up is looked at a
        few times, and has no second time to restart.
        """
        if any(each == name for each, _ in self._given_up):
            again = min(self._again, _FOUND_AGAIN_SECONDS) if restarted else self._again
            return fails >= _FEW_LOOKS_SECONDS and undone >= again
        return fails >= self._seconds

    def give_up(self, name: str) -> None:
        """It has had its time behind an undo."""
        self._given_up.add((name, ""))

    def skip(self) -> None:
        """A round in which nothing was asked doesn't count; after a few, what failed before says nothing of now."""
        now = self._clock.monotonic()
        self._skipped += 1
        spent = now - self._asked
        known = self._failing if self._skipped <= _FEW_ROUNDS else {}
        self._failing = {name: replace(each, since=each.since + spent) for name, each in known.items()}
        self._asked = now

    def _answered(self) -> float:
        self._skipped, self._asked = 0, self._clock.monotonic()
        return self._asked


class Restarts:
    """Of the objects that webhooks convert, and of aggregated APIs; kept for all gates of a run."""

    def __init__(self, clock: Clock) -> None:
        self.conversions = RestartWatch(clock, RESTART_SECONDS, _FOUND_AGAIN_SECONDS)
        self.services = RestartWatch(clock, _SERVICE_SECONDS, _ASKED_AGAIN_SECONDS)
