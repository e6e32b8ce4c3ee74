"""The decision against an independent oracle."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from testkit.fleet_histories import play, touches
from upgrader.fleet.selectors import Selector
from upgrader.fleet.windows import Exclusion, next_opening


def test_no_rule_is_broken_in_random_campaigns() -> None:
    """Budgets, windows, exclusions, domains, order, soaks and pauses hold, and each campaign can be ended."""
    assert sum(play(seed) for seed in range(60)) > 100


@pytest.mark.parametrize("needed", [timedelta(), timedelta(minutes=10)])
@pytest.mark.parametrize(("second", "closed"), [(-1, True), (0, False)])
def test_oracle_and_product_agree_on_the_moment_an_exclusion_ends(needed: timedelta, second: int, closed: bool) -> None:
    """The last day is excluded to its last second, and the next midnight is not, by the exclusion's own clock; also
    for what takes no time, such as the eviction of a pod that was chosen before.
    """
    exclusion = Exclusion(Selector(), date(2027, 3, 19), date(2027, 3, 21), ZoneInfo("America/New_York"))
    now = datetime(2027, 3, 22, 4, tzinfo=UTC) + timedelta(seconds=second)
    assert touches(exclusion, now, now + needed) is closed
    opening = next_opening({}, (), (exclusion,), now, needed.total_seconds())
    assert opening is not None and (opening.begins > now) is closed
