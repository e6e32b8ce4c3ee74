"""The page of runs one after the other."""

from __future__ import annotations

from dataclasses import replace

from bench.soak import Run, page
from tests.unit.bench.tables import rows

RUN = Run(1, 50.0, "run", 0, True, 80.0, 1.0, 4000, 0, {"HTTP 429": 2}, 200.0, 4.0, 40.0, 90, 0, "tmpfs")


def test_runs_are_added_up_by_controllers_and_command() -> None:
    """Counts are sums, times are medians with least and most, and errors of first tries are named."""
    text = page([RUN, replace(RUN, seconds=100.0, failed=1), replace(RUN, what="rollback")], 2, "2026-01-01")
    run, rollback = rows(text)
    assert (run["controllers"], run["command"], run["as expected"]) == ("1", "`upgrader run`", "2 of 2")
    assert (run["requests"], run["failed"], run["failed at the first try"]) == ("8000", "1", "4 × HTTP 429")
    assert run["s"] == "90 (80–100)"
    assert (rollback["command"], rollback["requests"], rollback["failed"]) == ("`upgrader rollback`", "4000", "0")


def test_a_failed_run_does_not_count_as_good() -> None:
    """A run with an exit code other than 0, or at another version, is not counted as good."""
    (found,) = rows(page([RUN, replace(RUN, exit_code=4), replace(RUN, reached=False)], 2, "2026-01-01"))
    assert found["as expected"] == "1 of 3"
