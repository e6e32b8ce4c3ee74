"""What clients of the API saw, as it is printed."""

from __future__ import annotations

import io
from dataclasses import replace

from upgrader.cli.ui.availability import print_availability
from upgrader.model.availability import Availability, Failure, Lane, Latency, Watches

FAILURE = Failure("2026-01-01T00:00:00.000Z", "10.0.0.1:6443", "kept HTTP/2", "write PUT /x", "connection refused")
SEEN = Availability(
    requests=1234,
    failed=12,
    raw_failed=14,
    longest_gap_ms=140.2,
    failures=(FAILURE,) * 12,
    watches=Watches(events=400, missed=1, repeated=2, resumed=3),
    lanes=(Lane("10.0.0.1:6443", "kept HTTP/2", "write", 617, 12, 14, Latency(3.21, 8.0, 120.4, 900.0, 5012.0)),),
    cpu_percent=3.4,
)


def test_kinds_watches_and_failures_are_shown() -> None:
    """Each kind of request with failed and raw count and its latencies, the watches, the first failures, the sum."""
    out = io.StringIO()
    print_availability(SEEN, out)
    shown = out.getvalue()
    assert "10.0.0.1:6443  kept HTTP/2  write         617      12   14  3.2 ms  8.0 ms  120 ms  5012 ms" in shown
    assert "400 events, 1 missed, 2 repeated; resumed 3 times" in shown
    assert "3.4 % of a core" in shown
    assert shown.count("connection refused") == 10 and "… and 2 more" in shown
    assert "1,234 requests · 12 failed (14 at the first try) · longest gap 140 ms" in shown


def test_addresses_of_ipv6_are_shown() -> None:
    """Brackets begin no style, and none of others' text does."""
    out = io.StringIO()
    lanes = tuple(replace(SEEN.lanes[0], address=address) for address in ("[fd00::a]:6443", "[/x]:6443"))
    print_availability(replace(SEEN, lanes=lanes), out)
    assert "[fd00::a]:6443" in out.getvalue() and "[/x]:6443" in out.getvalue()
