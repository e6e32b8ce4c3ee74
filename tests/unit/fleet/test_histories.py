"""The decision against an independent oracle."""

from __future__ import annotations

from testkit.fleet_histories import play


def test_no_rule_is_broken_in_random_campaigns() -> None:
    """Budgets, windows, exclusions, domains, order, soaks and pauses hold, and each campaign can be ended."""
    assert sum(play(seed) for seed in range(60)) > 100
