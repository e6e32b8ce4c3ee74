"""Where measurements are kept: pages in docs/benchmarks, the JSON that they are made from in bench/results."""

from __future__ import annotations

from pathlib import Path

from testkit.command import REPOSITORY

__all__ = ["PAGES", "RESULTS", "results_file"]

PAGES = REPOSITORY / "docs" / "benchmarks"
RESULTS = REPOSITORY / "bench" / "results"


def results_file(pages: Path, name: str) -> Path:
    """The JSON of a page: in bench/results if the page goes to docs/, otherwise (`--out`) beside the page."""
    return (RESULTS if pages.resolve().is_relative_to(REPOSITORY / "docs") else pages) / name
