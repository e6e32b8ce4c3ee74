"""The benchmark of guard: its page, and what it asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.guard.asking import Said, deletion, downscale, p99
from bench.guard.crowd import Crowd, manifests
from bench.guard.looks import how, measured
from bench.guard.measures import slowest_hundredth
from bench.guard.originals.__main__ import TABLES
from bench.guard.originals.api import said
from bench.guard.originals.page import Compared
from bench.guard.originals.page import page as comparison
from bench.guard.page import LIMITS, Reached, Taken, known, page, written
from bench.guard.repeated.case import KEPT, batches
from bench.guard.repeated.cases import CASES
from bench.guard.repeated.results import known as known_outcomes
from bench.guard.repeated.results import outcome, table
from bench.guard.repeated.results import written as write_outcomes
from bench.places import PAGES, RESULTS
from tests.unit.bench.tables import row


def taken(*found: Reached, cores: int = 2, date: str = "2026-11-25") -> dict[str, Taken]:
    """As of one run."""
    return {each.limit: Taken(each, date, cores) for each in found}


def test_each_measure_is_a_row_with_its_limit_and_whether_it_is_kept() -> None:
    """Too slow is told as such, and what wasn't taken, too."""
    found = [Reached("webhook", 12.34, "500/s", 0.7), Reached("writes", 1.11, "of the same", 0.7)]
    text = page(taken(*found, Reached("memory", 143.8, "2,000 sets", 0.7)), "make bench-guard", "")
    fast = row(text, LIMITS["webhook"].what)
    assert (fast["limit"], fast["measured"], fast["met"], fast["how"]) == ("20 ms", "12.3 ms", "yes", "500/s")
    many = row(text, LIMITS["writes"].what)
    assert (many["limit"], many["measured"], many["met"]) == ("1.05", "1.11", "**no**")
    large = row(text, LIMITS["memory"].what)
    assert (large["limit"], large["measured"], large["met"]) == ("200 MiB", "144 MiB", "yes")
    assert row(text, LIMITS["ready"].what)["measured"] == "not measured yet"
    assert (fast["taken"], fast["machine"]) == ("2026-11-25", "2 cores, load average 0.7") and "busy" not in text
    assert "busy" in page(taken(Reached("quota", 0, "20 rounds", 7.0)), "make bench-guard", "")


def test_a_measure_that_is_taken_again_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    """With their days; one that no longer is any is left out."""
    file = tmp_path / "guard.json"
    assert known(file) == {}
    old = taken(Reached("webhook", 12.0, "", 0.7), Reached("writes", 0.4, "", 0.7), date="2026-11-24")
    written(file, {**old, "former": Taken(Reached("former", 1.0, "", 0.0), "2026-11-01", 2)})
    new = taken(Reached("writes", 0.3, "", 0.5))
    written(file, known(file) | new)
    assert known(file) == {"webhook": old["webhook"], "writes": new["writes"]}


def test_a_crowd_is_as_many_sets_in_zones_with_a_budget_for_each_group() -> None:
    """Each set's selector finds its pods, and each budget a group of its own."""
    made = list(manifests(Crowd(sets=10, pods_of_each=3, zones=4)))
    assert len({each["metadata"]["name"] for each, _ in made}) == 10
    groups = [each["metadata"]["labels"]["rollout-group"] for each, _ in made]
    assert [groups.count(each) for each in sorted(set(groups))] == [4, 4, 2]
    budgets = [limit["spec"]["selector"]["matchLabels"]["rollout-group"] for _, limit in made if limit]
    assert budgets == sorted(set(groups))
    for each, _ in made:
        spec = each["spec"]
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        assert (spec["replicas"], spec["updateStrategy"]) == (3, {"type": "OnDelete"})


def test_decisions_among_many_are_timed_by_parts() -> None:
    """guard's own roles: each deletion is allowed, its pod's end seen, and counted, and each part has a time."""
    found = measured(3, 2)
    assert set(found) == {"first look", "answer", "event", "look"}
    assert all(len(each) == 3 and min(each) > 0 for each in found.values())
    assert how({"answer": [0.001, 0.002, 0.0045]}) == "median and longest, in ms: answer 2.00, 4.50"


def test_the_time_inside_guard_is_read_from_its_histogram() -> None:
    """The bound of the bucket that has 99 of 100, of this path alone; without any, there is no time."""
    name, counts = "guard_seconds", {"0.1": 980.0, "0.25": 991.0, "+Inf": 1000.0}
    own = [f'{name}_bucket{{le="{bound}",path="/one"}} {count}' for bound, count in counts.items()]
    text = "\n".join([*own, f'{name}_bucket{{le="+Inf",path="/two"}} 7.0', f'{name}_count{{path="/one"}} 1000.0'])
    assert slowest_hundredth(text, name, "/one") == 0.25
    assert slowest_hundredth(text, name, "/three") is None
    assert slowest_hundredth(text.replace("991", "989"), name, "/one") == float("inf")


@pytest.mark.parametrize(("over", "enough"), [(-1, True), (0, True), (1, False)])
def test_one_beyond_the_quota_is_too_many(over: int, enough: bool) -> None:
    """None is."""
    assert Reached("quota", over, "", 0.0).enough is enough


def test_the_slowest_hundredth_is_left_out() -> None:
    """In milliseconds, whatever their order."""
    said = [Said(200, True, seconds / 1000) for seconds in range(200, 0, -1)]
    assert p99(said) == pytest.approx(199)
    assert p99(said[:1]) == pytest.approx(200)


def test_what_is_asked_is_what_an_api_server_asks() -> None:
    """A pod's deletion, and a set that shrinks, every other one with the label."""
    pod = {"metadata": {"name": "web-0", "namespace": "shop"}}
    asked = json.loads(deletion(pod, dry_run=True))["request"]
    assert (asked["operation"], asked["name"], asked["oldObject"], asked["dryRun"]) == ("DELETE", "web-0", pod, True)
    labels = [json.loads(downscale(number))["request"]["object"]["metadata"]["labels"] for number in range(2)]
    assert [bool(each) for each in labels] == [False, True]


def test_each_case_is_a_row_with_what_either_side_did() -> None:
    """One that wasn't run, or failed on one side, is told as such; versions and days are on the page."""
    seen = {"order": Compared("a → b → c", "", "2026-11-26"), "lag": Compared("409", "a|b", "2026-11-27")}
    text = comparison(TABLES, seen, {"rollout-operator": "v0.38.1", "podseidon": "v0.2.2"})
    cases = {case.key: case.what for _, cases in TABLES.values() for case in cases}
    assert f"| {cases['order']} | a → b → c | not run yet |" in text
    assert f"| {cases['lag']} | 409 | a\\|b |" in text
    assert f"| {cases['restart']} | not run yet | not run yet |" in text
    assert all(each in text for each in ("v0.38.1", "v0.2.2", "2026-11-26 and 2026-11-27"))
    assert len(cases) == sum(len(found) for _, found in TABLES.values()), "each has a key of its own"


def test_what_a_webhook_denied_is_told_in_its_own_words() -> None:
    """Without what the API server says before it; what isn't a Status is told as it is."""
    denied = {"message": 'admission webhook "x.y" denied the request: 1 pod not ready in db-a'}
    assert said(429, json.dumps(denied).encode()) == "429: 1 pod not ready in db-a"
    assert said(409, b'{"message": "conflict"}') == "409: conflict"
    assert said(503, b"no server") == "503: no server"
    assert said(201, b"{}") == ""


def test_what_broke_a_promise_is_told_with_how_often(tmp_path: Path) -> None:
    """In the row of its case, for guard and for the original; one that wasn't tried is told as such; a file keeps it
    all.
    """
    ours = outcome([KEPT] * 20, 612.34, 1.26, "2026-11-29", "dd8c6c0d")
    theirs = outcome([KEPT, *["10 pods too many were deleted"] * 2], 99.0, 1.0, "2026-11-29", "dd8c6c0d")
    file = tmp_path / "guard-repeated.json"
    assert known_outcomes(file, CASES) == {}
    write_outcomes(file, {"silent": {"guard": ours, "Podseidon": theirs}, "former": {"guard": ours}})
    found = known_outcomes(file, CASES)
    assert found == {"silent": {"guard": ours, "Podseidon": theirs}} and (ours.kept, theirs.kept) == (20, 1)
    text = table(CASES, found)
    silent, prepared = (row(text, each.what) for each in (CASES[0], CASES[2]))
    assert (silent["kept by guard"], silent["seconds"]) == ("20 of 20", "612")
    assert silent["kept by the original"] == "Podseidon: **1 of 3**: 2 × 10 pods too many were deleted"
    assert "2026-11-29" in silent["taken"] and "dd8c6c0d" in silent["taken"]
    assert (prepared["kept by guard"], prepared["seconds"]) == ("not tried yet", "")


def test_the_page_is_what_its_files_say() -> None:
    """Nobody edits a figure there by hand, or forgets the page when a figure is taken anew."""
    taken_last = known(RESULTS / "guard.json")
    promises = table(CASES, known_outcomes(RESULTS / "guard-repeated.json", CASES))
    assert (PAGES / "guard.md").read_text() == page(taken_last, "make bench-guard", promises)


@pytest.mark.parametrize(("rounds", "found"), [(20, [4] * 5), (5, [4, 1]), (0, [])])
def test_rounds_that_run_together_are_as_many_as_are_wanted(rounds: int, found: list[int]) -> None:
    """No more than may run at a time."""
    assert list(batches(rounds, 4)) == found
