"""What was reached, beside what was reached before: docs/benchmarks/guard.md and its JSON."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from bench.guard.page import Reached, Taken, known, page, written
from bench.guard.repeated.cases import CASES
from bench.guard.repeated.results import known as known_outcomes
from bench.guard.repeated.results import table
from bench.places import results_file

__all__ = ["keep"]


def keep(out: Path, found: Reached) -> str:
    """The page, with the measures of before that weren't taken again."""
    out.mkdir(parents=True, exist_ok=True)
    today, cores = f"{datetime.now(UTC):%Y-%m-%d}", os.cpu_count() or 1
    taken = known(results_file(out, "guard.json")) | {found.limit: Taken(found, today, cores)}
    written(results_file(out, "guard.json"), taken)
    promises = table(CASES, known_outcomes(results_file(out, "guard-repeated.json"), CASES))
    text = page(taken, "make bench-guard", promises)
    (out / "guard.md").write_text(text)
    return text
