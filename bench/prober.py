"""`make bench-prober`: what the availability prober costs, in CPU time of its own process, at several rates."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.command import REPOSITORY, upgrader
from upgrader.availability.probe import AvailabilityProbe
from upgrader.model.availability import Availability

__all__ = ["Cost", "main", "page"]

_RATES = (10.0, 50.0, 100.0)


@dataclass(frozen=True)
class Cost:
    """What one round cost: `cpu_percent` of one core, over the whole round."""

    rate: float
    load_average: float
    seen: Availability


def main() -> int:
    """Measure on a lab; the page is written to the folder of benchmarks, and the table printed."""
    parser = argparse.ArgumentParser(prog="make bench-prober", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="of each round (default: 60)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds at each rate (default: 3)")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="a cluster folder (default: a new lab)")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "benchmarks", help="folder of the page")
    options = parser.parse_args()
    found = _rounds(options.folder / "kubeconfig", options) if options.folder else _on_new_lab(options)
    text = page(found, options.seconds, os.cpu_count() or 1, f"{datetime.now(UTC):%Y-%m-%d}")
    (options.out / "prober.md").write_text(text)
    print(text)
    return 0


def page(costs: Sequence[Cost], seconds: float, cores: int, date: str) -> str:
    """The page, as Markdown."""
    rows = [
        f"| {cost.rate:.0f} | {cost.seen.cpu_percent:.1f} | {cost.seen.requests} | {cost.seen.failed} "
        f"| {cost.seen.latency.p50:.1f} | {cost.seen.latency.p99:.1f} | {cost.load_average:.1f} |"
        for cost in costs
    ]
    head = "| requests a second | CPU, % of a core | requests | failed | p50, ms | p99, ms | load average |"
    table = "\n".join([head, "|---:" * 7 + "|", *rows])
    return _PAGE.format(table=table, seconds=seconds, cores=cores, date=date)


def _on_new_lab(options: argparse.Namespace) -> list[Cost]:
    name = f"bench-prober-{os.getpid()}"
    with tempfile.TemporaryDirectory() as home:
        try:
            ended = upgrader("-C", home, "lab", "up", "--name", name, timeout_seconds=1800)
            if ended.exit_code:
                sys.exit(str(ended))
            return _rounds(Path(home) / ".lab" / name / "kubeconfig", options)
        finally:
            upgrader("-C", home, "lab", "down", "--name", name)


def _rounds(kubeconfig: Path, options: argparse.Namespace) -> list[Cost]:
    found = []
    for rate in _RATES:
        for _ in range(options.repeat):
            load = os.getloadavg()[0]
            with AvailabilityProbe(kubeconfig, requests_per_second=rate) as probe:
                time.sleep(options.seconds)
                found.append(Cost(rate, load, probe.stop()))
    return found


_PAGE = """# What the prober costs

`make bench-prober`, {date}, {cores} cores: the CPU time (user and system) of the prober's own process, divided by wall
time, in rounds of {seconds:.0f} s against a lab of one controller on the same machine. Its start isn't in it: that is
over before it begins to ask.

{table}

The target is 5 % of a core at 100 requests a second. The same work costs more CPU time on a machine whose cores are
shared by much else (cold caches, answers that come one by one, requests that time out): only rows with a load average
below the number of cores say whether it is met.
"""


if __name__ == "__main__":
    sys.exit(main())
