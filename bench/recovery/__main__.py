"""`make bench-recovery`: how long a control plane is unreachable, by cause; --cuts N: power cuts in an upgrade."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.recovery.causes import CAUSES
from bench.recovery.cuts import cut, good, moments, start_over
from bench.recovery.measure import Result, Site
from bench.recovery.page import as_json, boot_table, cause_table, cut_table
from testkit.labs import some_cluster

__all__ = ["main"]


def main() -> int:
    """0 when the API came back each time; tables on standard output, progress on standard error."""
    options = _parser().parse_args()
    by_cause: list[Result] = []
    cuts: list[Result] = []
    missed = 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    with some_cluster(options.lab, "bench") as cluster:
        site = Site(cluster)
        wanted = [cause for cause in CAUSES if not options.only or cause.name in options.only]
        jobs = [(cause.name, cause.measure, by_cause) for cause in wanted for _ in range(options.repeat)]
        if options.cuts:
            _say(f"power cuts with seed {seed}")
            jobs += [
                (f"cut at {at:.0f} s", _cut_at(at, not options.quick), cuts)
                for at in moments(seed, options.cuts, options.span)
            ]
        for number, (name, measure, results) in enumerate(jobs, start=1):
            begun = time.monotonic()
            try:
                start_over(site)
                site.wait_done()
                results.append(measure(site))
                line = cut_table(results[-1:]).splitlines()[-1]
            except TimeoutError as error:
                missed += 1
                line = f"NOT BACK: {error}"
            _say(f"{number} of {len(jobs)}  {name}: {line} ({time.monotonic() - begun:.0f} s)")
            if options.json:  # after each one, as the measurement may be interrupted
                figures = {"causes": as_json(by_cause), "seed": seed, "cuts": as_json(cuts), "not_back": missed}
                options.json.write_text(json.dumps(figures, indent=2) + "\n")
    if by_cause:
        print(cause_table(by_cause))
        print(boot_table([r for r in by_cause if r.cause == by_cause[0].cause]))
    if cuts:
        print(f"Seed {seed}.\n\n{cut_table(cuts)}")
    return 1 if missed else 0


def _cut_at(seconds: float, to_the_end: bool) -> Callable[[Site], Result]:
    return lambda site: cut(site, seconds, good(), to_the_end=to_the_end)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-recovery", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=["none", *(cause.name for cause in CAUSES)], help="this cause"
    )
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="how often each is measured (default: 3)")
    parser.add_argument("--cuts", type=int, default=0, metavar="N", help="power cuts in upgrades, at random moments")
    parser.add_argument("--quick", action="store_true", help="kill the run once the API is back after such a cut")
    parser.add_argument("--seed", type=int, metavar="N", help="of the moments (default: a new one, which is printed)")
    parser.add_argument("--span", type=float, default=150.0, metavar="S", help="how long an upgrade takes here")
    parser.add_argument("--lab", type=Path, metavar="FOLDER", help="an adopted lab with a snapshot `adopted`, to use")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
