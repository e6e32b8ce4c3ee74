"""Counting outcomes."""

from __future__ import annotations

from upgrader.availability.policy import Outcome
from upgrader.availability.tally import KEPT_FAILURES, Tally
from upgrader.model.availability import Failure

GOOD, RETRIED, BAD = Outcome(True, False), Outcome(True, True), Outcome(False, True, "connection refused")


def record(tally: Tally, outcome: Outcome, now: float) -> None:
    """Record an outcome that came at `now`."""
    tally.record(outcome, client="kept", request="GET /version", due="2026-01-01T00:00:00.000Z", now=now)


def test_counts_and_gaps() -> None:
    """Retried requests are raw failures only, and the longest gap is the one between two successes."""
    tally = Tally(100.0)
    for outcome, now in [(GOOD, 100.1), (RETRIED, 100.2), (BAD, 100.5), (GOOD, 101.7), (GOOD, 101.8)]:
        record(tally, outcome, now)
    seen = tally.snapshot(101.9)
    assert (seen.requests, seen.failed, seen.raw_failed, seen.longest_gap_ms) == (5, 1, 2, 1500.0)
    assert seen.failures == (Failure("2026-01-01T00:00:00.000Z", "kept", "GET /version", "connection refused"),)
    assert str(seen.failures[0]) == "2026-01-01T00:00:00.000Z kept GET /version: connection refused"


def test_a_gap_that_is_still_open_counts() -> None:
    """While nothing answers, the gap grows; it doesn't wait for an end to be seen."""
    tally = Tally(100.0)
    record(tally, GOOD, 100.1)
    assert tally.snapshot(105.1).longest_gap_ms == 5000.0


def test_no_answer_at_all_is_one_long_gap() -> None:
    """An API that never answered was away from the start."""
    assert Tally(100.0).snapshot(103.0).longest_gap_ms == 3000.0


def test_answers_out_of_order_make_no_gap() -> None:
    """An answer that is counted late, after a newer one, neither opens a gap nor moves time back."""
    tally = Tally(100.0)
    for now in (100.3, 100.2, 100.4):
        record(tally, GOOD, now)
    assert tally.snapshot(100.4).longest_gap_ms == 300.0


def test_a_long_outage_keeps_the_first_failures() -> None:
    """Every failure is counted, but only so many are kept in full."""
    tally = Tally(0.0)
    for second in range(KEPT_FAILURES + 5):
        record(tally, BAD, float(second))
    seen = tally.snapshot(0.0)
    assert (seen.failed, len(seen.failures)) == (KEPT_FAILURES + 5, KEPT_FAILURES)
