"""The table of what a rehearsal finds."""

from __future__ import annotations

from bench.places import PAGES
from bench.rehearsal import beside, kills
from bench.rehearsal.__main__ import recorded
from bench.rehearsal.cases import CASES, MEASURED, Case
from bench.rehearsal.rows import Row, page
from bench.rehearsal.stored import STORED

GONE = ("rehearsal.gone", "webs.x.com")
MISTAKE, CLEAN = Case("an API that goes", "usual", (GONE,)), Case("nothing", "usual")


def row(*found: str, good: bool = True) -> Row:
    """What became of one."""
    return Row("one", good, found, 1200, 41.4, 833, "2 to 5", "2026-11-29", "abc")


def test_the_page_is_made_from_the_records() -> None:
    """As it is in the documentation; each recorded one still exists."""
    assert (PAGES / "rehearsal.md").read_text() == page(recorded(), beside.recorded(), kills.recorded())


def test_every_cluster_has_its_data() -> None:
    """And none is made for nothing; there are at least fifteen mistakes, and six clusters without one."""
    assert {case.stored for case in {**CASES, **MEASURED}.values()} == STORED.keys()
    mistakes = [case for case in CASES.values() if case.expected]
    assert len(mistakes) >= 15 and len(CASES) - len(mistakes) >= 6


def test_what_was_not_named_is_told_from_what_was() -> None:
    """And so is what was found of a cluster without a mistake; information is not shown."""
    good = page([(MISTAKE, row("error rehearsal.gone webs.x.com", "info rehearsal.added webs")), (CLEAN, row())])
    assert "1 of 1 mistakes were named" in good and "1 of 1 had no finding" in good
    assert "| yes | `error rehearsal.gone webs.x.com` | 1,200 |" in good and "| – | nothing | 1,200 |" in good
    bad = page([(MISTAKE, row(good=False)), (CLEAN, row("error rehearsal.gone webs.x.com", good=False))])
    assert "0 of 1 mistakes were named" in bad and "0 of 1 had no finding" in bad
    assert "| **no** | nothing |" in bad and "| **falsely** | `error rehearsal.gone" in bad


def test_clients_beside_a_rehearsal_are_compared_with_those_alone() -> None:
    """The median of each way's 99th percentiles, beside that of the windows without a rehearsal."""
    p99 = {
        "none": (20.0, 10.0, 12.0),
        "none, but busy loops in its unit": (12.0, 14.0, 15.0),
        "none, but busy loops in another unit": (60.0, 60.0, 60.0),
        "on the controller": (18.0, 15.0, 90.0),
        "on another machine": (12.0, 12.0, 13.0),
    }
    windows = [
        beside.Window(way, 40.0, 2000, 0, 6.0, each, 1.0, 2.0, "2026-11-30", "abc")
        for way, of in p99.items()
        for each in of
    ]
    text = " ".join(page([], windows).split())
    assert "without a rehearsal 12 (10–20; × 1.00), with one on the controller 18 (15–90; × 1.50)" in text
    assert "with one on another node 12 (12–13; × 1.00), with eight busy loops in a rehearsal's unit 14 (12–15" in text
    assert "3 windows of each kind" in text and "Of 30,000 requests, 0 failed." in text
