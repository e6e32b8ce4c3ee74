"""Campaigns of fleets: the decision against its oracle, in 100,000 random histories. Part of `make soak`: an hour."""

from __future__ import annotations

import pytest

from testkit.fleet_histories import play

HISTORIES, AT_ONCE = 100_000, 1_000


@pytest.mark.parametrize("first", range(0, HISTORIES, AT_ONCE))
def test_no_rule_is_broken(first: int) -> None:
    """Budgets, windows, exclusions, domains, order, soaks and pauses hold, and each campaign can be ended."""
    assert sum(play(seed) for seed in range(first, first + AT_ONCE)) > AT_ONCE
