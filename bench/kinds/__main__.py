"""`python -m bench.kinds`: take labs of some kinds the whole way; writes bench/results/kinds.json and the page.

Each makes a lab of its own and removes it: a quarter of an hour on two cores. Without --kind, only the page is made.
With --only, the cluster is adopted and upgraded, and what earlier labs have shown of the other columns stays.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.kinds.page import supported
from bench.kinds.public_files import read_files
from bench.kinds.record import read, recorded, write
from bench.places import RESULTS
from testkit.command import REPOSITORY
from testkit.kinds.catalogue import KINDS, Kind
from testkit.kinds.clusters import cluster_of
from testkit.kinds.columns import COLUMNS, NEEDED, PASSED, REFUSED, whole_way
from testkit.lab_cluster import OLD, TARGET

_DATA = RESULTS / "kinds.json"
_FILES = RESULTS / "public_files.json"
_PAGE = REPOSITORY / "docs" / "reference" / "supported.md"


def main() -> int:
    """0 when every column of every kind passed, or was refused."""
    parser = argparse.ArgumentParser(prog="python -m bench.kinds", description=__doc__)
    names = [kind.name for kind in KINDS]
    parser.add_argument("--kind", action="append", choices=names, default=[], help="may be repeated")
    parser.add_argument("--program", type=Path, metavar="FILE", help="of a kind whose program the lab doesn't build")
    later = [name for name in COLUMNS if name not in NEEDED]
    parser.add_argument("--only", action="append", choices=later, default=[], help="a column; may be repeated")
    options = parser.parse_args()
    wanted = [kind for kind in KINDS if kind.name in options.kind]
    for kind in wanted:
        if kind.program and not (options.program and options.program.is_file()):
            parser.error(f"{kind.name} needs --program, a file: {kind.program.how_to_get_it}")
    good = [_seen(kind, options.program, options.only) for kind in wanted]
    _PAGE.write_text(supported(read(_DATA), read_files(_FILES), OLD, TARGET))
    return 0 if all(good) else 1


def _seen(kind: Kind, program: Path | None, only: Sequence[str]) -> bool:
    """Whether nothing failed; each column is recorded as soon as it ends."""
    good = True
    with cluster_of(kind, program) as cluster:
        for column, cell in whole_way(cluster, kind, only=only):
            print(f"{kind.name}: {column}: {cell.result} in {cell.seconds:.0f} s {cell.words}", file=sys.stderr)
            if not only or column in only:
                write(_DATA, recorded(read(_DATA), kind, column, cell, alone=bool(only)))
            good = good and cell.result in (PASSED, REFUSED)
    return good


if __name__ == "__main__":
    sys.exit(main())
