"""`make bench-checkpointer`: the figures that it prints."""

from __future__ import annotations

from bench.checkpointer import Sample, table


def test_cpu_is_what_was_used_while_looking() -> None:
    """Not since the process began: starting Python is no cost of idling."""
    begin, end = Sample(rss=40.0, peak=52.0, cpu=9.0), Sample(rss=41.5, peak=52.0, cpu=9.6)
    assert "| copy | 41.5 MiB | 52.0 MiB | 0.50% of a core |" in table({"copy": (begin, end)}, 120.0)
