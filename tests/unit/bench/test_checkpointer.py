"""`make bench-checkpointer`: the figures that it prints."""

from __future__ import annotations

from bench.checkpointer import Sample, table
from tests.unit.bench.tables import row


def test_cpu_counts_from_the_first_sample() -> None:
    """CPU time that a process used before it was measured, to start Python, is not part of its idle cost."""
    begin, end = Sample(rss=40.0, peak=52.0, cpu=9.0), Sample(rss=41.5, peak=52.0, cpu=9.6)
    found = row(table({"standby pod": (begin, end)}, 120.0), "standby pod")
    assert (found["memory (RSS)"], found["at most"]) == ("41.5 MiB", "52.0 MiB")
    assert found["CPU"] == "0.50% of a core"
