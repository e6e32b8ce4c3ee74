"""The page about kept connections."""

from __future__ import annotations

from dataclasses import asdict

from bench.kept_connections import page
from testkit.kept_connections import KeptSeen
from testkit.kept_http2_clients import HTTP2Seen


def test_page() -> None:
    """Each run has a table with raw counts of both kinds of clients, and the command that made it."""
    seen = KeptSeen(20, 0.05, 4_000, 20, 1, 5_234.0, ("RemoteDisconnected",))
    lane = HTTP2Seen("lease", 5, 2.0, 700, 2, 3, 912.0, 0, 0, ())
    result = {"date": "2026-01-01", "cores": 2, "rolls": 3, "clients": [asdict(seen)], "http2": [asdict(lane)]}
    text = page({"1 all": result, "3 none": result})
    assert "## 1 controller, with HTTP/1.1 clients: 3 rolls" in text
    assert "## 3 controllers, through the load balancer, HTTP/2 alone: 3 rolls" in text
    assert "`make bench-kept ROLLS=3 CONTROLLERS=3 BESIDE=none`, 2026-01-01, 2 cores." in text
    assert "| HTTP/1.1 | 20 | 0.05 | 4000 | 20 | 1 | 5.2 |" in text
    assert "| HTTP/2, a Lease | 5 | 2 | 700 | 2 | 3 | 0.9 |" in text
