"""Counting outcomes."""

from __future__ import annotations

from upgrader.gates.availability.retry_policy import Outcome
from upgrader.gates.availability.tally import KEPT_FAILURES, NEWEST_FAILURES, Probed, Tally
from upgrader.model.availability import Availability, Failure, Watches

GOOD, RETRIED, BAD = Outcome(True, False), Outcome(True, True, "HTTP 429"), Outcome(False, True, "connection refused")
A, B = "10.0.0.1:6443", "10.0.0.2:6443"
WALL, TIME = 1767225600.0, "2026-01-01T00:00:00.000Z"


def record(tally: Tally, outcome: Outcome, now: float, *, due: float | None = None, address: str = A) -> None:
    """Record an outcome that came at `now` to a request that was due then, or a while before."""
    probed = Probed(address, "kept", "get GET /x", tally.phase, now if due is None else due, WALL)
    tally.record(probed, outcome, now)


def seen(tally: Tally, now: float) -> Availability:
    """All that was counted until `now`."""
    return tally.snapshot(now, Watches())


def test_counts_and_gaps() -> None:
    """Retried requests are raw failures only, and the longest gap is the one between two successes."""
    tally = Tally(100.0, (A,))
    for outcome, now in [(GOOD, 100.1), (RETRIED, 100.2), (BAD, 100.5), (GOOD, 101.7), (GOOD, 101.8)]:
        record(tally, outcome, now)
    counts = seen(tally, 101.9)
    assert (counts.requests, counts.failed, counts.raw_failed, counts.longest_gap_ms) == (5, 1, 2, 1500.0)
    assert counts.failures == (Failure(TIME, A, "kept", "get GET /x", "connection refused"),)
    assert str(counts.failures[0]) == f"{TIME} kept get GET /x at {A}: connection refused"
    assert [failure.error for failure in counts.raw_failures] == ["HTTP 429"]


def test_a_gap_that_is_still_open_counts() -> None:
    """While nothing answers, the gap grows; it doesn't wait for an end to be seen."""
    tally = Tally(100.0, (A,))
    record(tally, GOOD, 100.1)
    assert seen(tally, 105.1).longest_gap_ms == 5000.0


def test_no_answer_at_all_is_one_long_gap() -> None:
    """An API that never answered was away from the start."""
    assert seen(Tally(100.0, (A,)), 103.0).longest_gap_ms == 3000.0


def test_an_address_that_is_away_is_not_covered_up_by_another() -> None:
    """A gap is an address's: a load balancer that answers doesn't hide a controller that doesn't."""
    tally = Tally(100.0, (A, B))
    for now in (100.5, 101.0, 101.5):
        record(tally, GOOD, now, address=A)
    assert seen(tally, 101.6).longest_gap_ms == 1600.0


def test_answers_out_of_order_make_no_gap() -> None:
    """An answer that is counted late, after a newer one, neither opens a gap nor moves time back."""
    tally = Tally(100.0, (A,))
    for now in (100.3, 100.2, 100.4):
        record(tally, GOOD, now)
    assert seen(tally, 100.4).longest_gap_ms == 300.0


def test_time_in_which_nobody_asked_is_nobodys_gap() -> None:
    """When the prober itself didn't get to run for two seconds, that is said, and is not held against the server."""
    tally = Tally(100.0, (A,))
    record(tally, GOOD, 100.1)
    tally.stalled(2.0)
    record(tally, GOOD, 102.2)
    counts = seen(tally, 102.2)
    assert (counts.longest_gap_ms, counts.stalled_ms) == (100.0, 2000.0)


def test_a_request_belongs_to_the_phase_in_which_it_was_due() -> None:
    """A request that was due in one step and failed during the next one is counted, and told, with the first."""
    tally = Tally(0.0, (A,))
    tally.enter("first")
    probed = Probed(A, "kept", "get GET /x", tally.phase, 1.0, WALL)
    tally.enter("second")
    tally.record(probed, BAD, 9.0)
    record(tally, GOOD, 9.0)
    counts = seen(tally, 9.0)
    assert {phase.name: (phase.requests, phase.failed) for phase in counts.phases if phase.requests} == {
        "first": (1, 1),
        "second": (1, 0),
    }
    assert counts.failures[0].phase == "first"
    assert "(during first)" in str(counts.failures[0])


def test_a_gap_belongs_to_every_phase_that_it_reaches_into() -> None:
    """An outage that begins in one step and goes on in the next is seen in its full length in both."""
    tally = Tally(0.0, (A,))
    record(tally, GOOD, 1.0)
    tally.enter("first")
    record(tally, GOOD, 1.5)
    tally.enter("second")
    record(tally, GOOD, 6.5)
    tally.enter("third")
    record(tally, GOOD, 6.6)
    gaps = {phase.name: phase.longest_gap_ms for phase in seen(tally, 6.6).phases}
    assert gaps == {"": 1000.0, "first": 5000.0, "second": 5000.0, "third": 100.0}


def test_latency_is_measured_from_when_a_request_was_due() -> None:
    """A request that was due while the server stalled counts with the whole of its wait (coordinated omission)."""
    tally = Tally(0.0, (A,))
    for number in range(100):
        record(tally, GOOD, 10.0, due=number / 10)
    latency = seen(tally, 10.0).latency
    assert 5000 <= latency.p50 <= 5200
    assert latency.longest == 10000.0


def test_each_kind_has_its_own_counts() -> None:
    """A kind of request, client and address that fails is told apart from the others."""
    tally = Tally(0.0, (A, B))
    record(tally, GOOD, 0.1, address=A)
    record(tally, BAD, 0.1, address=B)
    assert {(lane.address, lane.request, lane.failed) for lane in seen(tally, 0.2).lanes} == {
        (A, "get", 0),
        (B, "get", 1),
    }


def test_a_long_outage_keeps_the_first_failures() -> None:
    """Every failure is counted, but only so many are kept in full."""
    tally = Tally(0.0, (A,))
    for second in range(KEPT_FAILURES + 5):
        record(tally, BAD, float(second))
    counts = seen(tally, 0.0)
    assert (counts.failed, len(counts.failures)) == (KEPT_FAILURES + 5, KEPT_FAILURES)


def test_what_is_told_meanwhile_is_short() -> None:
    """Twice a second, only the newest failures are told, however many there are; all counts are complete."""
    tally = Tally(0.0, (A,))
    for second in range(100):
        record(tally, BAD, float(second))
    counts = tally.snapshot(100.0, Watches(), final=False)
    assert (counts.failed, len(counts.failures), counts.lanes) == (100, NEWEST_FAILURES, ())
