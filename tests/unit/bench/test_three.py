"""The page of the measurement with three controllers."""

from __future__ import annotations

from bench.three import Seen, page
from tests.unit.bench.tables import row
from upgrader.model.availability import Availability, Watches


def test_page_shows_what_failed_and_under_which_load() -> None:
    """Failed, raw, gap, missed events and the load average stand in one row, each under its name."""
    availability = Availability(requests=900, failed=3, raw_failed=7, longest_gap_ms=812.4, watches=Watches(50, 1))
    text = page([Seen("adopt", 0, 171.6, 9.5, availability, "as it should")], 50.0, 2, "2026-01-02")
    found = row(text, "adopt")
    assert (found["exit"], found["s"], found["load average"], found[""]) == ("0", "172", "9.5", "as it should")
    assert (found["requests"], found["failed"], found["raw"]) == ("900", "3", "7")
    assert (found["longest gap, ms"], found["watch events / missed"]) == ("812", "50 / 1")
    assert "2026-01-02, 2 cores" in text and "50 requests a second" in text
