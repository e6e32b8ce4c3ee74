"""Latencies in a small space."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from upgrader.gates.availability.histogram import Histogram

seconds = st.floats(min_value=0, max_value=100, allow_nan=False)


@given(st.lists(seconds, min_size=1), st.sampled_from([1.0, 50.0, 90.0, 99.0, 99.9, 100.0]))
def test_percentiles_are_close_to_the_exact_ones(values: list[float], percent: float) -> None:
    """A percentile is never shorter than the exact one, and at most 1.6 % and a microsecond longer."""
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100 - 1e-9) - 1)]
    found = histogram.percentile(percent)
    assert exact - 1e-6 <= found <= exact * (1 + 1 / 64) + 2e-6


@given(st.lists(seconds), st.lists(seconds))
def test_merged_counts_are_those_of_all_values(left: list[float], right: list[float]) -> None:
    """Adding histograms up is the same as counting all values in one."""
    one, other, both = Histogram(), Histogram(), Histogram()
    for value in left:
        one.record(value)
        both.record(value)
    for value in right:
        other.record(value)
        both.record(value)
    one.add([other])
    assert [one.percentile(p) for p in (0, 50, 99)] == [both.percentile(p) for p in (0, 50, 99)]
    assert one.maximum == both.maximum


def test_its_size_does_not_grow_with_the_number_of_values() -> None:
    """A hundred thousand different latencies up to ten seconds fit into some 1,500 buckets."""
    histogram = Histogram()
    for number in range(100_000):
        histogram.record(number / 10_000)
    assert len(histogram._counts) <= 1600


def test_nothing_counted() -> None:
    """Without any value there is no latency to speak of."""
    assert Histogram().percentile(99) == 0.0
