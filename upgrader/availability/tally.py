"""Counts outcomes, from several threads."""

from __future__ import annotations

import threading

from upgrader.availability.policy import Outcome
from upgrader.model.availability import Availability, Failure

__all__ = ["KEPT_FAILURES", "Tally"]

KEPT_FAILURES = 500
"""How many failures are kept one by one: at 10 requests a second, close to a minute without any API."""


class Tally:
    """Outcomes so far. All times are in one monotonic clock's seconds."""

    def __init__(self, started: float) -> None:
        self._lock = threading.Lock()
        self._requests = self._failed = self._raw_failed = 0
        self._failures: list[Failure] = []
        self._last_success = started
        self._longest = 0.0

    def record(self, outcome: Outcome, *, client: str, request: str, due: str, now: float) -> None:
        """Count one request that was due at `due` (wall clock, ISO 8601) and ended at `now`."""
        with self._lock:
            self._requests += 1
            self._raw_failed += outcome.raw_failed
            if outcome.ok:
                self._longest = max(self._longest, now - self._last_success)
                self._last_success = max(self._last_success, now)
            else:
                self._failed += 1
                if len(self._failures) < KEPT_FAILURES:
                    self._failures.append(Failure(due, client, request, outcome.error))

    def snapshot(self, now: float) -> Availability:
        """All that was counted, with the gap that is still open."""
        with self._lock:
            gap = max(self._longest, now - self._last_success)
            return Availability(
                self._requests, self._failed, self._raw_failed, round(gap * 1000, 1), tuple(self._failures)
            )
