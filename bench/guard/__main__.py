"""`make bench-guard`: how long guard makes others wait, and that it never allows too much; writes the page."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from bench.guard.crowd import Crowd
from bench.guard.crowded import among_many
from bench.guard.kept import keep
from bench.guard.measures import deletions, quota, ready_to_deletion, webhook
from bench.guard.page import Reached
from bench.guard.programs import Guard
from bench.guard.site import Site, site
from bench.places import PAGES

__all__ = ["main"]

_MEASURES = ("webhook", "deletions", "quota", "ready", "crowd")
"""In this order, as the last one leaves its objects there."""


def main() -> int:
    """0 when each that was taken is within its limit; the page is written after each, as one may fail, and printed."""
    options = _parser().parse_args()
    measures: Mapping[str, Callable[[Site], Iterable[Reached]]] = {
        "webhook": lambda on: webhook(on, 500, options.seconds),
        "deletions": lambda on: (
            *deletions(on, 100, options.seconds, 50, "-100"),
            *deletions(on, 200, options.seconds, 50),
        ),
        "quota": lambda on: quota(on, 200, 10, options.rounds, options.seed),
        "ready": lambda on: ready_to_deletion(on, options.rolls),
        "crowd": lambda on: among_many(on, Crowd(options.sets, options.pods_of_each), options.rolls),
    }
    enough = dict[str, bool]()
    with tempfile.TemporaryDirectory() as folder, site(Path(folder), Guard()) as on:
        for name in _MEASURES:
            if options.only and name not in options.only:
                continue
            print(f"{name} …", file=sys.stderr, flush=True)
            for each in measures[name](on):
                enough[each.limit] = each.enough
                text = keep(options.out, each)
    print(text)
    return 0 if all(enough.values()) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-guard", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="under load, each (default: 20)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of 200 deletions at once (default: 20)")
    parser.add_argument("--rolls", type=int, default=4, metavar="N", help="of a group of six sets (default: 4)")
    parser.add_argument("--sets", type=int, default=2000, metavar="N", help="StatefulSets of a crowd (default: 2000)")
    parser.add_argument("--pods-of-each", type=int, default=10, metavar="N", help="pods of each (default: 10)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="when replicas are killed (default: 1)")
    parser.add_argument("--only", nargs="+", choices=_MEASURES, help="these alone; what was reached before stays")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
