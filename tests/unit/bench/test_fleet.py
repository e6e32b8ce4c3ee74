"""What the bench of fleets makes of an audit log and of what the coordinator says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench import fleet
from bench.fleet import GOALS, figures_of, table
from bench.large.audit import Request

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def request(verb: str, resource: str, user: str = "coordinator") -> Request:
    return Request(verb, resource, "/", "upgrader", user, NOW)


def test_requests_are_the_coordinators() -> None:
    """The player's don't count; each cluster that was begun has its share of those that all have in common."""
    requests = [*[request("create", "jobs")] * 2, request("watch", "jobs"), request("list", "pods", "admin")]
    looks = {"seconds": [0.1] * 19 + [3.0], "cpu": [0.1] * 20, "succeeded": 2, "rss_kib": 81920, "cpu_seconds": 2.0}
    found = figures_of(2, requests, looks, 200 << 10, 120.0)
    assert found["requests"] == {"create jobs": 2, "watch jobs": 1} and found["requests_each"] == 1.5
    assert (found["rss_mib"], found["largest_kib"], found["minutes"]) == (80, 200, 2.0)
    assert (found["look_seconds"], found["look_seconds_median"], found["look_seconds_longest"]) == (3.0, 0.1, 3.0)


def test_each_goal_is_beside_its_figure() -> None:
    """The table has what was measured, and what it may be at most."""
    figures = {"clusters": 1000, **{goal.figure: 1.5 for goal in GOALS}}
    rows = table(figures).splitlines()
    assert rows[0] == "| 1,000 clusters | measured | goal |" and len(rows) == 2 + len(GOALS)
    assert f"| {GOALS[1].what} | 1.5 MiB | 200 MiB |" in rows


def test_figures_are_recorded_before_the_servers_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An API server that doesn't end loses nothing of an hour's measuring."""
    figures: dict[str, Any] = {"clusters": 2, "succeeded": 2, **{goal.figure: 1.0 for goal in GOALS}}

    @contextmanager
    def measured(*_: object) -> Iterator[dict[str, Any]]:
        yield figures
        raise subprocess.TimeoutExpired("kube-apiserver", 100)

    monkeypatch.setattr(fleet, "_measured", measured)
    monkeypatch.setattr(sys, "argv", ["fleet", "--clusters=2", f"--out={tmp_path / 'fleet.json'}"])
    with pytest.raises(subprocess.TimeoutExpired):
        fleet.main()
    assert json.loads((tmp_path / "fleet.json").read_text()) == figures
