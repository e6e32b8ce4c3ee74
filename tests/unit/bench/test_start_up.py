"""What starting a command costs."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.places import PAGES, RESULTS
from bench.start_up.__main__ import CLICK, table
from bench.start_up.costs import Cost, Place, first_words, imports_of, own_cost
from bench.start_up.folder import filled
from bench.start_up.page import page
from testkit.command import REPOSITORY
from tests.unit.bench.tables import row

UNIT = [Cost(0.06, 0.1), Cost(0.05, 0.08), Cost(0.5, 0.9)]


@pytest.mark.parametrize(
    ("name", "cost", "late"),
    [
        ("`--help`", Cost(0.08, 9.0), False),
        ("`--help`", Cost(0.1, 0.1), True),
        ("completion of a run", Cost(9.0, 0.29), False),
        ("completion of a run", Cost(0.1, 0.31), True),
        ("first words", Cost(0.0, 1.1), True),
        ("the same imports alone", Cost(9.0, 9.0), False),
    ],
)
def test_limits(name: str, cost: Cost, late: bool) -> None:
    """Some are of CPU time in multiples of what click takes, some of seconds; a median counts, not one busy moment."""
    rows, over = table({CLICK: UNIT, name: [cost, cost, Cost(99.0, 99.0)]})
    assert over is late
    assert rows[1]["now"]["cpu_times"] == pytest.approx(cost.cpu / 0.06, abs=0.001)


def test_page_has_both_versions() -> None:
    """Each with multiples of what click takes with it."""
    now, before = {CLICK: UNIT, "`--help`": [Cost(0.09, 0.2)]}, {CLICK: UNIT, "`--help`": [Cost(0.9, 2.0)]}
    rows, _ = table(now, before)
    figures = {
        "date": "2026-01-02",
        "cores": 2,
        "load": 1.2,
        "nice": 19,
        "rounds": 7,
        "beside": "1234abcd",
        "rows": rows,
    }
    assert "load average 1, nice 19: medians of 7" in page(figures)
    found = row(page(figures), "`--help`")
    assert found["CPU, s"] == "0.09 (1.5 ×)" and found["CPU of commit 1234abcd, s"] == "0.90 (15.0 ×)"
    assert found["commit 1234abcd, s"] == "2.00 (20.0 ×)" and found["limit"] == "1.5 × CPU"


def test_first_words_are_seen(tmp_path: Path) -> None:
    """A command that would go on is ended as soon as something is on its terminal."""
    assert first_words(Place(REPOSITORY, filled(tmp_path)), "check").wall > 0


def test_imports_alone_are_made_as_the_command_makes_them(tmp_path: Path) -> None:
    """With the garbage collector as it sets it; otherwise they would seem to take longer than in the command."""
    (tmp_path / "looks.py").write_text(
        "import gc, pathlib\npathlib.Path('seen').write_text(str(gc.get_threshold()[0]))\n"
    )
    place = Place(REPOSITORY, tmp_path)
    _, imported = own_cost(place, "--version")
    imports_of(place, replace(imported, modules=("looks",)))
    assert (tmp_path / "seen").read_text() == str(imported.threshold) != str(gc.get_threshold()[0])


def test_recorded_page() -> None:
    """docs/benchmarks/start-up.md is what the recorded results make."""
    recorded = json.loads((RESULTS / "start-up.json").read_text())
    assert (PAGES / "start-up.md").read_text() == page(recorded)
