"""Where measurements are written."""

from __future__ import annotations

from pathlib import Path

from bench.places import PAGES, RESULTS, results_file
from testkit.command import REPOSITORY


def test_results_of_a_page_in_docs_are_in_bench() -> None:
    """docs/ has what people read; JSON is in bench/results."""
    assert results_file(PAGES, "runs.json") == RESULTS / "runs.json"
    assert results_file(REPOSITORY / "docs", "x.json") == RESULTS / "x.json"


def test_results_of_another_page_are_beside_it(tmp_path: Path) -> None:
    """A try with `--out` leaves what is known alone."""
    assert results_file(tmp_path, "runs.json") == tmp_path / "runs.json"


def test_docs_have_no_measurements_as_json() -> None:
    """Their JSON is the schemas of the reference, and nothing else."""
    found = {path.relative_to(REPOSITORY / "docs").parts[0] for path in (REPOSITORY / "docs").rglob("*.json")}
    assert found == {"reference"}
