"""Rehearses clusters with one mistake each, and clusters without any, and records what was found of each.

It needs no lab: real API servers store the objects on this machine, and the program of a rehearsal is run on copies of
them in a network of its own, as root. `bench/results/rehearsal.json` has the last result of each; `--page`, as `make
docs` calls it, makes docs/benchmarks/rehearsal.md from that file. `--only NAME` runs one, or one of those that take
long: they measure what many objects cost.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.places import PAGES, RESULTS
from bench.rehearsal.beside import recorded as windows
from bench.rehearsal.cases import CASES, MEASURED, Case
from bench.rehearsal.kills import recorded as kills
from bench.rehearsal.rows import Row, page
from bench.rehearsal.stored import STORED
from scripts.soak import commit_of
from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, TARGET
from testkit.rehearsed_data import RehearsedData, program_images, storing
from upgrader.errors import HostError
from upgrader.steps.rehearsal.differences import findings_of
from upgrader.steps.rehearsal.result import Result

__all__ = ["main", "recorded"]

_ALL = {**CASES, **MEASURED}
_FILE, _PAGE = RESULTS / "rehearsal.json", PAGES / "rehearsal.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse them; 0 if each was named, and nothing else."""
    parser = argparse.ArgumentParser(prog="python -m bench.rehearsal", description=__doc__)
    parser.add_argument("--only", choices=_ALL, action="append", help="only this one; may be repeated")
    parser.add_argument("--page", action="store_true", help="only make the page from what is recorded")
    given = parser.parse_args(arguments)
    good = True
    if not given.page:
        commit = commit_of(REPOSITORY)
        with tempfile.TemporaryDirectory() as folder:
            images = program_images(Path(folder), OLD, TARGET)
            made: dict[str, RehearsedData] = {}
            for name in given.only or CASES:
                case = _ALL[name]
                if case.stored not in made:
                    made[case.stored] = _store(case.stored, Path(folder) / f"data-{len(made)}", images)
                row = _rehearse(name, case, made[case.stored], commit)
                print(f"{'good ' if row.good else 'WRONG'} {name}: {', '.join(row.found) or 'nothing'}", flush=True)
                good = good and row.good
                _record(row)
    _PAGE.write_text(page(recorded(), windows(), kills()))
    return 0 if good else 1


def recorded() -> list[tuple[Case, Row]]:
    """The recorded rows, in the order of the cases; those that it has no longer are left out."""
    rows = {row.name: row for row in _rows()}
    return [(case, rows[name]) for name, case in _ALL.items() if name in rows]


def _rows() -> list[Row]:
    return [Row.of(each) for each in (json.loads(_FILE.read_text()) if _FILE.exists() else ())]


def _record(row: Row) -> None:
    """In place of what was known of it."""
    rows = {each.name: each for each in (*_rows(), row)}
    _FILE.write_text(json.dumps([asdict(rows[name]) for name in _ALL if name in rows], indent=1) + "\n")


def _store(name: str, folder: Path, images: Path) -> RehearsedData:
    folder.mkdir()
    stored = STORED[name]
    with storing(folder, images, stored.version, *stored.all_flags(folder)) as (site, kube):
        stored.make(kube)
    return site


def _rehearse(name: str, case: Case, site: RehearsedData, commit: str) -> Row:
    load = os.getloadavg()[0]
    result: Result | None = None
    try:
        result = site.rehearse(*case.both(site), requests=case.requests)
        pairs = tuple(zip(findings_of(result.differences), (each.resource for each in result.differences), strict=True))
        serious = {(finding.id, resource) for finding, resource in pairs if finding.severity != "info"}
        found = tuple(f"{finding.severity} {finding.id} {resource}".strip() for finding, resource in pairs)
        good = set(case.expected) <= serious if case.expected else not serious
    except HostError as error:
        found, good = (f"failed: {error.message}",), False
    return Row(
        name,
        good,
        found,
        result.counts.get("objects", 0) if result else 0,
        result.seconds if result else 0.0,
        result.peak_bytes >> 20 if result else 0,
        f"{load:.0f} to {os.getloadavg()[0]:.0f}",
        f"{datetime.now(UTC):%Y-%m-%d}",
        commit,
    )


if __name__ == "__main__":
    sys.exit(main())
