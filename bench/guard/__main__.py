"""`make bench-guard`: how long guard makes others wait, and that it never allows too much; writes the page."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from bench.guard.measures import deletions, quota, ready_to_deletion, webhook
from bench.guard.page import Reached, page
from bench.guard.programs import Guard
from bench.guard.site import Site, site
from testkit.command import REPOSITORY

__all__ = ["main"]


def main() -> int:
    """0 when each is within its limit; the page is written, and printed."""
    options = _parser().parse_args()
    measures: Mapping[str, Callable[[Site], list[Reached]]] = {
        "webhook": lambda on: webhook(on, 500, options.seconds),
        "deletions": lambda on: deletions(on, 200, options.seconds, 50),
        "quota": lambda on: quota(on, 200, 10, options.rounds, options.seed),
        "ready": lambda on: ready_to_deletion(on, options.rolls),
    }
    found: list[Reached] = []
    with tempfile.TemporaryDirectory() as folder, site(Path(folder), Guard()) as on:
        for name in options.only or measures:
            print(f"{name} …", file=sys.stderr)
            found += measures[name](on)
    text = page(found, os.cpu_count() or 1, f"{datetime.now(UTC):%Y-%m-%d}", "make bench-guard")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "guard.md").write_text(text)
    print(text)
    return 0 if all(each.enough for each in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-guard", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="under load, each (default: 20)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of 200 deletions at once (default: 20)")
    parser.add_argument("--rolls", type=int, default=4, metavar="N", help="of a group of six sets (default: 4)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="when replicas are killed (default: 1)")
    parser.add_argument("--only", nargs="+", choices=["webhook", "deletions", "quota", "ready"], help="these alone")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "benchmarks", help="folder of the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
