"""Samples over time: what a second of the prober's requests is told as."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from upgrader.gates.availability.samples import FINE_SECONDS, LATE_SECONDS, Samples
from upgrader.model.availability_series import Sample

WALL = 1_767_225_600.0
"""The wall clock when the loop's is 0."""


def asked(samples: Samples, due: float, took: float, *, ok: bool = True, kind: str = "get") -> None:
    """A request that was sent, and has ended."""
    samples.begin(due, WALL + due)
    samples.end(kind, due, WALL + due, due + took, ok=ok)


def test_a_request_counts_to_the_second_in_which_it_was_due() -> None:
    """It may be answered seconds later: the curve shows when a client that asked then was served, and how late."""
    samples = Samples(0.0, 2)
    asked(samples, 0.0, 0.002)
    asked(samples, 0.5, 3.0, kind="write")
    asked(samples, 1.0, 0.004)
    first, second = samples.take(5.0)
    assert (first.begun, first.ok, first.slowest_ms, first.median_ms) == (2, 2, 3000.0, 1501.0)
    assert (first.time.isoformat(), first.seconds) == ("2026-01-01T00:00:00+00:00", 1.0)
    assert (first.kinds["get"].slowest_ms, first.kinds["write"].slowest_ms) == (2.0, 3000.0)
    assert (second.begun, second.slowest_ms) == (1, 4.0)


def test_a_second_is_told_when_its_requests_have_ended() -> None:
    """At once in good times, so that a killed run loses little; after the deadline of requests at the latest."""
    samples = Samples(0.0, 1)
    asked(samples, 0.0, 0.01)
    assert [each.begun for each in samples.take(2.1)] == [1]
    samples.begin(2.0, WALL + 2)
    assert list(samples.take(4.0)) == []
    (late,) = samples.take(3.0 + LATE_SECONDS)
    assert (late.begun, late.ok, late.failed) == (1, 0, 0)


def test_failures_have_no_latency() -> None:
    """The latency of a second in which every request failed is not the time of their errors."""
    samples = Samples(0.0, 1)
    asked(samples, 0.0, 9.0, ok=False, kind="write")
    (found,) = samples.take(20.0)
    assert (found.failed, found.ok, found.slowest_ms, found.median_ms) == (1, 0, 0.0, 0.0)
    assert found.kinds["write"].failed == 1


def test_what_is_known_late_is_counted_all_the_same() -> None:
    """A watch's opening is told at its end: its second may be told already, and then the next one has it."""
    samples = Samples(0.0, 1)
    asked(samples, 0.0, 0.01)
    list(samples.take(2.5))
    samples.end("watch", 0.2, WALL + 0.2, 3.0, ok=False, counted=False)
    asked(samples, 4.0, 0.01)
    first, second = samples.take(9.0)
    assert (first.kinds["watch"].failed, first.failed, first.begun) == (1, 1, 1)
    assert first.time < second.time


def test_a_long_run_has_coarser_samples() -> None:
    """After the first hours a sample is of ten seconds, and nothing is lost: the file of a week stays small."""
    samples = Samples(0.0, 1)
    for second in range(int(FINE_SECONDS) - 5, int(FINE_SECONDS) + 20):
        asked(samples, float(second), 0.01)
    found = list(samples.take(FINE_SECONDS + 60))
    assert [each.seconds for each in found] == [1.0] * 5 + [10.0] * 2
    assert sum(each.begun for each in found) == 25


def test_a_slow_rate_has_no_empty_samples() -> None:
    """A request every four seconds: each sample has one, so that a time without samples is one without a prober."""
    samples = Samples(0.0, 0.25)
    for due in (0.0, 4.0, 8.0):
        asked(samples, due, 0.01)
    assert [(each.seconds, each.begun) for each in samples.take(60.0)] == [(4.0, 1)] * 3


def test_a_prober_that_did_not_run_says_so() -> None:
    """A busy machine delays requests, too: their latency is not the server's alone."""
    samples = Samples(0.0, 1)
    samples.stalled(1.5, 2.0, WALL + 2)
    (found,) = samples.take(20.0)
    assert found.stalled_ms == 1500.0


ENDS = st.tuples(
    st.floats(0, 20_000), st.floats(0, 30), st.booleans(), st.sampled_from(["begin", "end", "watch", "stall", "take"])
)


@given(st.lists(ENDS, max_size=40), st.floats(0.01, 1000))
def test_whatever_comes_in_whatever_order(ends: list[tuple[float, float, bool, str]], rate: float) -> None:
    """No order of requests, answers and stalls is an error; each answer is in one sample, and samples don't overlap."""
    samples, found, now, ended = Samples(0.0, rate), list[Sample](), 0.0, 0
    for due, took, ok, what in ends:
        now = max(now, due)
        if what == "begin":
            samples.begin(due, WALL + due)
        elif what == "stall":
            samples.stalled(took, due, WALL + due)
        elif what == "take":
            found += samples.take(now)
        else:
            samples.end("get", due, WALL + due, due + took, ok=ok, counted=what == "end")
            ended += 1
    found += samples.take(now, final=True)
    assert sum(each.ok + each.failed for each in found) == ended
    for one, other in pairwise(found):
        assert (other.time - one.ended).total_seconds() > -0.01
    assert [Sample.from_json(each.as_json()).begun for each in found] == [each.begun for each in found]
