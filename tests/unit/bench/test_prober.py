"""The benchmark of the prober's own cost."""

from __future__ import annotations

from bench.prober import Cost, page
from tests.unit.bench.tables import row
from upgrader.model.availability import Availability, Latency


def test_each_round_is_a_row_with_its_circumstances() -> None:
    """The prober's CPU stands beside that of a bare loop, the rate, what was asked, and the load average."""
    seen = Availability(requests=6000, failed=1, cpu_percent=4.21, latency=Latency(p50=3.0, p99=11.0))
    text = page([Cost(100.0, 0.7, seen, 2.04)], 60.0, 2, "2026-11-21")
    found = row(text, "100")
    assert (found["CPU, % of a core"], found["bare, %"], found["load average"]) == ("4.2", "2.0", "0.7")
    assert (found["requests"], found["failed"]) == ("6000", "1")
    assert (found["p50, ms"], found["p99, ms"]) == ("3.0", "11.0")
    assert "2026-11-21" in text and "2 cores" in text and "60 s" in text
