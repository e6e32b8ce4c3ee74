"""Windows, exclusions, and the schedules that open them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from upgrader.fleet.cron import Cron
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.windows import Exclusion, Opening, Window, next_opening

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600.0
ALL = Selector()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def starts(cron: str, since: str, number: int, zone: str = "Europe/Berlin") -> list[str]:
    found = islice(Cron.parse(cron).starts(ZoneInfo(zone), at(since)), number)
    return [f"{each:%Y-%m-%dT%H:%M:%S}" for each in found]


def window(cron: str = "0 22 * * *", hours: float = 4, selector: Selector = ALL) -> Window:
    return Window(selector, Cron.parse(cron), hours * HOUR, BERLIN)


@pytest.mark.parametrize(
    ("cron", "since", "expected"),
    [
        ("0 22 * * 1-4", "2026-12-10T12:00", ["2026-12-10T21:00:00", "2026-12-14T21:00:00"]),
        ("30 2 * * *", "2027-03-27T12:00", ["2027-03-28T01:00:00", "2027-03-29T00:30:00"]),  # 02:30 is skipped
        ("0,30 2 28 3 *", "2027-03-27T12:00", ["2027-03-28T01:00:00", "2028-03-28T00:00:00"]),  # both move to 03:00
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T00:30:00", "2026-10-26T01:30:00"]),  # 02:30 occurs twice
        ("0 0 29 2 *", "2026-12-10T12:00", ["2028-02-28T23:00:00", "2032-02-28T23:00:00"]),
        ("0 0 13 * fri", "2026-12-10T12:00", ["2026-12-10T23:00:00", "2026-12-12T23:00:00"]),  # either of the two days
        ("0 12 1 jan-feb 7/2", "2026-12-10T12:00", ["2027-01-01T11:00:00", "2027-01-03T11:00:00"]),
        ("*/20 5-6/1 * * *", "2026-12-10T12:00", ["2026-12-11T04:00:00", "2026-12-11T04:20:00"]),
    ],
)
def test_schedules(cron: str, since: str, expected: list[str]) -> None:
    """Starts are local; what a change of the clocks skips moves to the first valid instant, what it repeats is once."""
    assert starts(cron, since, 2) == expected


def test_half_an_hour_of_daylight_saving() -> None:
    """A gap of thirty minutes ends at its end, wherever in it the start would be."""
    assert starts("10 2 4 10 *", "2026-10-01T00:00", 1, "Australia/Lord_Howe") == ["2026-10-03T15:30:00"]


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("0 22 * *", "has 4 fields"),
        ("60 22 * * *", "minute '60': must be a number from 0 to 59"),
        ("0 22 * * mo", "day of the week 'mo': must be a number"),
        ("0 22-20 * * *", "the range ends before it starts"),
        ("*/0 22 * * *", "the step after ./. must be a number of at least 1"),
    ],
)
def test_wrong_schedules(cron: str, problem: str) -> None:
    """The error names the field and the part of it."""
    with pytest.raises(ValueError, match=problem):
        Cron.parse(cron)


def test_schedule_that_never_comes() -> None:
    """30 February is on no day."""
    assert starts("0 0 30 2 *", "2026-12-10T12:00", 1) == []


def opening(*windows: Window, exclusions: tuple[Exclusion, ...] = (), now: str, hours: float = 1) -> Opening | None:
    return next_opening({"region": "a"}, windows, exclusions, at(now), hours * HOUR)


def christmas(selector: Selector = ALL) -> Exclusion:
    return Exclusion(selector, date(2026, 12, 15), date(2027, 1, 6), BERLIN)


def test_an_open_window_counts_only_while_there_is_time() -> None:
    """A run begins at once if it fits into what is left of the window, and otherwise in the next one."""
    assert opening(window(), now="2026-12-10T23:59") == Opening(at("2026-12-10T23:59"), at("2026-12-11T01:00"))
    assert opening(window(), now="2026-12-11T00:01") == Opening(at("2026-12-11T21:00"), at("2026-12-12T01:00"))


def test_an_exclusion_wins_over_a_window() -> None:
    """Its first and last day are excluded, in local time; a window that reaches into it is shorter."""
    found = opening(window(), exclusions=(christmas(),), now="2026-12-14T21:30", hours=2)
    assert found == Opening(at("2027-01-06T23:00"), at("2027-01-07T01:00"))
    found = opening(window(), exclusions=(christmas(),), now="2026-12-14T21:30")
    assert found == Opening(at("2026-12-14T21:30"), at("2026-12-14T23:00"))


def test_no_window() -> None:
    """A cluster without a window begins at any time outside of exclusions that are its own."""
    other = window(selector=Selector((Requirement("region", "NotIn", ("a",)),)))
    assert opening(other, now="2026-12-01T00:00") == Opening(at("2026-12-01T00:00"), None)
    found = opening(exclusions=(christmas(), christmas()), now="2026-12-20T00:00")
    assert found == Opening(at("2027-01-06T23:00"), None)
    foreign = christmas(Selector((Requirement("region", "DoesNotExist"),)))
    assert opening(exclusions=(foreign,), now="2026-12-20T00:00") == Opening(at("2026-12-20T00:00"), None)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Asia/Kathmandu", "America/New_York"])
@pytest.mark.parametrize("windows", [(), (window(),)])
def test_first_and_last_date(zone: str, windows: tuple[Window, ...]) -> None:
    """An exclusion without an end has the last date there is: nothing begins after its first day, in every zone."""
    there = ZoneInfo(zone)
    for last in (date.max, date.max.replace(day=30), date(9000, 1, 1), date(8999, 12, 31)):
        whole = Exclusion(ALL, date.min, last, there)
        assert next_opening({}, windows, (whole,), at("2026-12-01T22:00"), HOUR) is None
        later = Exclusion(ALL, date(2027, 1, 1), last, there)
        found = next_opening({}, windows, (later,), at("2026-12-01T22:00"), HOUR)
        assert found is not None and found.begins == at("2026-12-01T22:00")
    past = Exclusion(ALL, date.min, date.min, there)
    found = next_opening({}, windows, (past,), at("2026-12-01T22:00"), HOUR)
    assert found is not None and found.begins == at("2026-12-01T22:00")


@pytest.mark.parametrize("turn", [1, -1])
def test_of_two_windows_that_are_open_the_later_end_counts(turn: int) -> None:
    """By then, a Job that has waited may still begin its run."""
    found = opening(*(window(hours=2), window(hours=6))[::turn], now="2026-12-01T21:30")
    assert found == Opening(at("2026-12-01T21:30"), at("2026-12-02T03:00"))


def test_two_windows() -> None:
    """The one that opens first counts; one that is too short never does."""
    found = opening(window("0 3 * * *", 2), window("0 22 * * *", 0.5), now="2026-12-01T12:00")
    assert found == Opening(at("2026-12-02T02:00"), at("2026-12-02T04:00"))
    assert opening(window("0 22 * * *", 0.5), now="2026-12-01T12:00") is None


@pytest.mark.parametrize(
    ("requirement", "selected"),
    [
        (Requirement("ring", "In", ("a", "b")), True),
        (Requirement("ring", "NotIn", ("a",)), False),
        (Requirement("zone", "NotIn", ("a",)), True),
        (Requirement("ring", "Exists"), True),
        (Requirement("ring", "DoesNotExist"), False),
    ],
)
def test_selectors(requirement: Requirement, selected: bool) -> None:
    """Operators mean what they do in Kubernetes."""
    assert Selector((requirement,)).selects({"ring": "a"}) is selected
