"""The page about kept connections."""

from __future__ import annotations

from dataclasses import asdict

from bench.kept_connections import page
from testkit.kept_connections import KeptSeen


def test_page() -> None:
    """Each number of controllers has a table with raw counts, and the command that made it."""
    seen = KeptSeen(20, 0.05, 4_000, 20, 1, 5_234.0, ("RemoteDisconnected",))
    result = {"date": "2026-01-01", "cores": 2, "rolls": 3, "clients": [asdict(seen)]}
    text = page({"1": result, "3": result})
    assert "## 1 controller: 3 rolls" in text and "## 3 controllers, through the load balancer: 3 rolls" in text
    assert "`make bench-kept ROLLS=3 CONTROLLERS=3`, 2026-01-01, 2 cores." in text
    assert "| 20 | 0.05 | 4000 | 20 | 1 | 5.2 |" in text
