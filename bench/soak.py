"""`make soak`, first part: repeated runs and rollbacks, with clients at every address."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.places import PAGES, results_file
from testkit.command import REPOSITORY, must, upgrader
from testkit.labs import every_address, nodes_disks
from testkit.versions import COMPONENTS, running_versions
from upgrader.adapters.kube import KubeAdapter
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.lab.lifecycle import Lab

__all__ = ["Run", "main", "page"]


@dataclass(frozen=True)
class Run:
    """One run or rollback, and what the clients saw from just before it until just after it."""

    controllers: int
    rate: float
    """Requests a second that the clients sent."""
    what: str
    exit_code: int
    reached: bool
    """Whether every component reached the version."""
    seconds: float
    load_average: float
    requests: int
    failed: int
    raw: dict[str, int]
    """Failed first tries, by error."""
    longest_gap_ms: float
    p50_ms: float
    p99_ms: float
    watch_events: int
    watch_missed: int
    disks: str
    """The file system of the nodes' disks; tmpfs is memory."""


def main() -> int:
    """0 when every run reached its version and no request failed; the lab is removed either way."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--from", dest="start", default="v1.36.3", help="Kubernetes version of the new cluster")
    parser.add_argument("--to", dest="target", default="v1.37.1", help="version to upgrade it to")
    parser.add_argument("--rounds", type=int, default=10, help="how often to upgrade and to go back")
    parser.add_argument("--controllers", type=int, default=1, help="controllers of the lab")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second, through all addresses together")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    name = f"soak-{os.getpid()}"
    folder = REPOSITORY / ".lab" / name
    runs: list[Run] = []
    try:
        size = ("--controllers", str(options.controllers))
        must(upgrader("lab", "up", "--name", name, *size, "--kubernetes", options.start, timeout_seconds=1800))
        must(upgrader("-C", folder, "adopt", "--yes"))
        cluster = _Cluster(Lab.find(name), folder, options.rate)
        for _ in range(options.rounds):
            runs.append(cluster.run("run", options.target, "run", "--to", options.target, "--yes"))
            _write(runs, options.out)
            runs.append(cluster.run("rollback", options.start, "rollback", "--yes"))
            _write(runs, options.out)
    finally:
        upgrader("lab", "down", "--force", "--name", name)
    return 1 if any(run.exit_code or run.failed or not run.reached for run in runs) else 0


class _Cluster:
    """A lab, and clients that ask it through every address: load balancer, controllers, ClusterIP."""

    def __init__(self, lab: Lab, folder: Path, rate: float) -> None:
        self._folder, self._rate = folder, rate
        self._kube = KubeAdapter(folder / "kubeconfig")
        self._controllers = [node.address for node in lab.placement.nodes if node.role == "controller"]
        self._addresses = every_address(self._kube, self._controllers)

    def run(self, what: str, version: str, *command: str) -> Run:
        """Execute it under load; prints its output to standard error if it fails."""
        with AvailabilityProbe(
            self._folder / "kubeconfig", requests_per_second=self._rate, addresses=self._addresses
        ) as probe:
            time.sleep(3)
            begun = time.monotonic()
            ended = upgrader("-C", self._folder, *command)
            seconds, load = time.monotonic() - begun, os.getloadavg()[0]
            time.sleep(5)
            seen = probe.stop()
        reached = {running_versions(self._kube)[component] for component in COMPONENTS} == {version}
        found = Run(
            controllers=len(self._controllers),
            rate=self._rate,
            what=what,
            exit_code=ended.exit_code,
            reached=reached,
            seconds=round(seconds, 1),
            load_average=round(load, 1),
            requests=seen.requests,
            failed=seen.failed,
            raw=dict(Counter(failure.error for failure in seen.raw_failures)),
            longest_gap_ms=round(seen.longest_gap_ms, 1),
            p50_ms=seen.latency.p50,
            p99_ms=seen.latency.p99,
            watch_events=seen.watches.events,
            watch_missed=seen.watches.missed,
            disks=nodes_disks(),
        )
        if ended.exit_code:
            print(ended, file=sys.stderr)
        print(json.dumps(asdict(found)), file=sys.stderr, flush=True)
        for failure in seen.failures[:20]:
            print(f"  failed: {failure}", file=sys.stderr, flush=True)
        for failure in seen.raw_failures[:20]:
            print(f"  first try: {failure}", file=sys.stderr, flush=True)
        return found


def _write(runs: Sequence[Run], folder: Path) -> None:
    """Write after each run, as the measurement may be interrupted. Runs with other numbers of controllers stay."""
    results = results_file(folder, "runs.json")
    before: list[dict[str, Any]] = json.loads(results.read_text()) if results.exists() else []
    known = [*(Run(**each) for each in before if each["controllers"] != runs[0].controllers), *runs]
    known.sort(key=lambda run: run.controllers)
    results.write_text(json.dumps([asdict(run) for run in known], indent=1) + "\n")
    (folder / "runs.md").write_text(page(known, os.cpu_count() or 1, f"{datetime.now(UTC):%Y-%m-%d}"))


def page(runs: Sequence[Run], cores: int, date: str) -> str:
    """The page, as Markdown."""
    rows = []
    for controllers in sorted({run.controllers for run in runs}):
        for what in ("run", "rollback"):
            chosen = [run for run in runs if (run.controllers, run.what) == (controllers, what)]
            if chosen:
                rows.append(_row(controllers, what, chosen))
    header = f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|"
    return _PAGE.format(header=header, rows="\n".join(rows), cores=cores, date=date)


_COLUMNS = (
    "controllers", "command", "as expected", "requests a second", "requests", "failed", "failed at the first try",
    "longest gap, ms", "p50, ms", "p99, ms", "watch events / missed", "s", "load average", "nodes' disks",
)  # fmt: skip


def _row(controllers: int, what: str, runs: Sequence[Run]) -> str:
    raw: Counter[str] = Counter()
    for run in runs:
        raw.update(run.raw)
    first = "; ".join(f"{count} × {error}" for error, count in raw.most_common()) or "0"
    good = sum(run.exit_code == 0 and run.reached for run in runs)
    cells = (
        controllers,
        f"`upgrader {what}`",
        f"{good} of {len(runs)}",
        ", ".join(sorted({f"{run.rate:g}" for run in runs})),
        sum(run.requests for run in runs),
        sum(run.failed for run in runs),
        first,
        _spread([run.longest_gap_ms for run in runs]),
        _spread([run.p50_ms for run in runs]),
        _spread([run.p99_ms for run in runs]),
        f"{sum(run.watch_events for run in runs)} / {sum(run.watch_missed for run in runs)}",
        _spread([run.seconds for run in runs]),
        _spread([run.load_average for run in runs]),
        ", ".join(sorted({run.disks for run in runs})),
    )
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.0f} ({min(values):.0f}–{max(values):.0f})"


_PAGE = """\
# Complete runs, one after the other

`python -m bench.soak` ({date}, {cores} cores for everything: controllers, clients, `upgrader`) upgrades a lab from one
minor version of Kubernetes to the next with `upgrader run`, and back with `upgrader rollback`, repeatedly.
Meanwhile, requests of [every kind](../availability.md) go to every address: controllers, load balancer (with
three), ClusterIP of Service `kubernetes`. The prober of `upgrader` adds 10 requests a second.
Medians, with minimum and maximum in parentheses; [all figures](../../bench/results/runs.json).

{header}
{rows}

*Longest gap*: the longest time between two answers through one address, so it is never shorter than the time
between two requests: with three controllers, five addresses share the requests. *s*: the whole command, gates included.
*Nodes' disks*: their file system. A tmpfs is in memory, so that the machine's disk and other programs don't
affect the figures: run `mount -t tmpfs tmpfs /var/lib/upgrader-lab` before the first lab, and set
`XDG_CACHE_HOME` to a copy of the cache in memory.
"""


if __name__ == "__main__":
    sys.exit(main())
