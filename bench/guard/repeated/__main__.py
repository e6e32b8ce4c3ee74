"""Break what guard stands on, again and again, and count how often its promise is kept, beside the originals."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench.guard.originals.programs import Upstream, certificate
from bench.guard.originals.side import Side, guards, originals
from bench.guard.page import known as known_measures
from bench.guard.page import page
from bench.guard.repeated.case import Case
from bench.guard.repeated.cases import CASES
from bench.guard.repeated.results import Outcome, known, outcome, table, written
from bench.places import PAGES, results_file
from scripts.soak import commit_of
from testkit.command import REPOSITORY
from upgrader.lab.build_cache import cache_root

__all__ = ["main"]


def main() -> int:
    """0 when guard kept its promise in each round; the page is written after each case."""
    options = _parser().parse_args()
    file = results_file(options.out, "guard-repeated.json")
    outcomes = known(file, CASES)
    right = True
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        tls = certificate(folder)
        for each in ("guard", "originals"):
            (folder / each).mkdir()
        sides = [stack.enter_context(guards(folder / "guard", tls, counts=True))]
        if options.rollout_operator and options.podseidon:
            options.programs.mkdir(parents=True, exist_ok=True)
            checkouts = (each.resolve() for each in (options.rollout_operator, options.podseidon, options.programs))
            sides.append(stack.enter_context(originals(folder / "originals", tls, Upstream(*checkouts))))
        for case in CASES:
            for side in sides if not options.only or case.key in options.only else ():
                found = _tried(case, side, options.rounds, options.seed)
                ours = side is sides[0]
                right = right and (found.kept == found.rounds or not ours)
                outcomes.setdefault(case.key, {})["guard" if ours else case.original] = found
                written(file, outcomes)
                text = page(
                    known_measures(results_file(options.out, "guard.json")), "make bench-guard", table(CASES, outcomes)
                )
                (options.out / "guard.md").write_text(text)
    return 0 if right else 1


def _tried(case: Case, side: Side, rounds: int, seed: int) -> Outcome:
    chance, begun, load = random.Random(seed), time.monotonic(), os.getloadavg()[0]  # noqa: S311 - and no secret
    said = case.run(side, rounds, chance)
    seconds, load = time.monotonic() - begun, max(load, os.getloadavg()[0])
    found = outcome(said, seconds, load, f"{datetime.now(UTC):%Y-%m-%d}", commit_of(REPOSITORY))
    print(f"{case.key}, {side.title}: {found}", file=sys.stderr, flush=True)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.guard.repeated", description=__doc__)
    keys = [case.key for case in CASES]
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of each (default: 20)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="how clocks jump (default: 1)")
    parser.add_argument("--only", nargs="+", choices=keys, help="these alone; what came out before stays")
    parser.add_argument("--rollout-operator", type=Path, metavar="CHECKOUT", help="of its repository, and")
    parser.add_argument("--podseidon", type=Path, metavar="CHECKOUT", help="of its repository: to try both, too")
    parser.add_argument(
        "--programs", type=Path, default=cache_root() / "guard-originals", metavar="FOLDER", help="of what is built"
    )
    parser.add_argument("--out", type=Path, default=PAGES, metavar="FOLDER", help="of the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
