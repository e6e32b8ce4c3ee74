"""The page of the measurement with three controllers."""

from __future__ import annotations

from bench.three import Seen, page
from upgrader.model.availability import Availability, Watches


def test_page_shows_what_failed_and_under_which_load() -> None:
    """Failed, raw, gap, missed events and the load average stand in one row: no number is without its circumstances."""
    availability = Availability(requests=900, failed=3, raw_failed=7, longest_gap_ms=812.4, watches=Watches(50, 1))
    text = page([Seen("adopt", 0, 171.6, 9.5, availability, "as it should")], 50.0, 2, "2026-01-02")
    assert "| adopt | 0 | 172 | 900 | 3 | 7 | 812 | 0 | 0 | 50 / 1 | 9.5 | as it should |" in text
    assert "2026-01-02, 2 cores" in text and "50 requests a second" in text
