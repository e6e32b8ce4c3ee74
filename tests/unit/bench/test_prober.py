"""The benchmark of the prober's own cost."""

from __future__ import annotations

from bench.prober import Cost, page
from upgrader.model.availability import Availability, Latency


def test_each_round_is_a_row_with_its_circumstances() -> None:
    """A share of a core stands beside the least possible one, the rate, what was asked, and the load average."""
    seen = Availability(requests=6000, failed=1, cpu_percent=4.21, latency=Latency(p50=3.0, p99=11.0))
    text = page([Cost(100.0, 0.7, seen, 2.04)], 60.0, 2, "2026-11-21")
    assert "| 100 | 4.2 | 2.0 | 6000 | 1 | 3.0 | 11.0 | 0.7 |" in text
    assert "rounds of 60 s" in text and "2 cores" in text
