"""`make bench-three`: three controllers under load: adopted, given a bad flag, upgraded, one of them without power."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from bench.places import PAGES, results_file
from testkit.command import REPOSITORY, must, upgrader
from testkit.labs import every_address
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.lab.lifecycle import Lab
from upgrader.model.availability import Availability
from upgrader.ports import Kind

__all__ = ["Seen", "main", "page"]

_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
_DEADLINE_SECONDS = 120.0


@dataclass(frozen=True)
class Seen:
    """What clients saw during one event; `note` has further results."""

    what: str
    exit_code: int | None
    seconds: float
    load_average: float
    availability: Availability
    note: str = ""


def main() -> int:
    """0 when all ended as expected and no request failed, except those in flight on a dead controller."""
    parser = argparse.ArgumentParser(prog="make bench-three", description=__doc__)
    parser.add_argument("--from", dest="start", default="v1.36.3", help="Kubernetes version of the new cluster")
    parser.add_argument("--to", dest="target", default="v1.37.1", help="version to upgrade it to")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second, through all addresses together")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    name = f"three-{os.getpid()}"
    folder = REPOSITORY / ".lab" / name
    try:
        must(upgrader("lab", "up", "--name", name, "--controllers", "3", "--kubernetes", options.start))
        found = _Three(Lab.find(name), folder, options.rate).measure(options.target)
    finally:
        upgrader("lab", "down", "--force", "--name", name)
    text = page(found, options.rate, os.cpu_count() or 1, f"{datetime.now(UTC):%Y-%m-%d}")
    (options.out / "three-controllers.md").write_text(text)
    results = json.dumps([asdict(seen) for seen in found], indent=1) + "\n"
    results_file(options.out, "three-controllers.json").write_text(results)
    print(text)
    return 1 if any(seen.availability.failed for seen in found[:-1]) else 0


class _Three:
    """A lab with three controllers, and clients that ask it through every address."""

    def __init__(self, lab: Lab, folder: Path, rate: float) -> None:
        self._lab, self._folder, self._rate = lab, folder, rate
        self._kube = KubeAdapter(folder / "kubeconfig")
        self._controllers = {node.name: node.address for node in lab.placement.nodes if node.role == "controller"}
        settings = yaml.safe_load((folder / "upgrader.yaml").read_text())
        # One prober is enough: two would conflict in their writes.
        (folder / "upgrader.yaml").write_text(yaml.safe_dump({**settings, "availability": {"requestsPerSecond": 0}}))

    def measure(self, target: str) -> list[Seen]:
        """Everything, in an order in which each leaves what the next one needs."""
        return [
            self._during("adopt", lambda: self._upgrader(0, "adopt", "--yes")),
            self._during("bad flag, rolled back", lambda: self._bad_flag(target)),
            self._during(f"run --to {target}", lambda: self._upgrader(0, "run", "--to", target, "--yes")),
            self._during("one controller loses power", self._power_cut, without=("controller-3",)),
        ]

    def _during(self, what: str, work: Callable[[], tuple[int | None, str]], without: tuple[str, ...] = ()) -> Seen:
        addresses = [address for name, address in self._controllers.items() if name not in without]
        urls = every_address(self._kube, addresses)
        with AvailabilityProbe(self._folder / "kubeconfig", requests_per_second=self._rate, addresses=urls) as probe:
            begun = time.monotonic()
            exit_code, note = work()
            seconds, load = time.monotonic() - begun, os.getloadavg()[0]
            time.sleep(30)  # until the last old instance has ended
            seen = probe.stop()
        print(f"{what}: {seconds:.0f} s, {seen.requests} requests, {seen.failed} failed; {note}", file=sys.stderr)
        for failure in (*seen.failures[:10], *seen.raw_failures[:10]):
            print(f"  {failure}", file=sys.stderr)
        return Seen(what, exit_code, round(seconds, 1), round(load, 1), seen, note)

    def _upgrader(self, expected: int, *arguments: str) -> tuple[int, str]:
        ended = must(upgrader("-C", self._folder, *arguments), expected)
        return ended.exit_code, ""

    def _bad_flag(self, target: str) -> tuple[int, str]:
        file = self._folder / "values" / "kube-apiserver.yaml"
        before = file.read_text()
        values = yaml.safe_load(before)
        values["extraArgs"] = {**values.get("extraArgs", {}), "max-requests-inflight": "many"}
        file.write_text(yaml.safe_dump(values, sort_keys=False))
        try:
            # What is measured is the way back: it would be refused before anything changes.
            skipping = ("--skip", "trial.refused", "--reason", "to measure the way back")
            return self._upgrader(4, "run", "--to", target, "--yes", *skipping)
        finally:
            file.write_text(before)

    def _power_cut(self) -> tuple[int | None, str]:
        """One of three controllers without power: endpoints drop it, and a run refuses to begin."""
        dead = self._controllers["controller-3"]
        self._lab.crash("controller-3")
        begun = time.monotonic()
        while dead in self._endpoints():
            if time.monotonic() - begun > _DEADLINE_SECONDS:
                raise SystemExit(f"{dead} is still an endpoint of Service kubernetes after {_DEADLINE_SECONDS:.0f} s")
            time.sleep(0.5)
        forgotten = time.monotonic() - begun
        refused = must(upgrader("-C", self._folder, "run", "--yes"), 3)
        assert "controller-3" in refused.stdout + refused.stderr, refused
        self._lab.boot("controller-3")
        back = time.monotonic()
        self._lab.wait_until_ready(240)
        return 3, (
            f"no endpoint after {forgotten:.0f} s; `run` refused; all Ready {time.monotonic() - back:.0f} s after boot"
        )

    def _endpoints(self) -> set[str]:
        with suppress(ApiError):
            found = self._kube.get(_SLICES, "kubernetes", "default")
            return {address for item in (found or {}).get("endpoints") or () for address in item["addresses"]}
        return set(self._controllers.values())  # no answer: assume that none is gone


def page(found: list[Seen], rate: float, cores: int, date: str) -> str:
    """The page, as Markdown."""
    rows = []
    for seen in found:
        of = seen.availability
        code = "" if seen.exit_code is None else seen.exit_code
        rows.append(
            f"| {seen.what} | {code} | {seen.seconds:.0f} | {of.requests} | {of.failed} | {of.raw_failed} "
            f"| {of.longest_gap_ms:.0f} | {of.latency.p50:.0f} | {of.latency.p99:.0f} "
            f"| {of.watches.events} / {of.watches.missed} | {seen.load_average:.1f} | {seen.note} |"
        )
    columns = (
        "what", "exit", "s", "requests", "failed", "raw", "longest gap, ms", "p50, ms", "p99, ms",
        "watch events / missed", "load average", "",
    )  # fmt: skip
    table = "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows])
    return _PAGE.format(table=table, rate=rate, cores=cores, date=date)


_PAGE = """\
# Three controllers

`make bench-three` ({date}, {cores} cores for all of it: three controllers, the load balancer, the clients).
{rate:.0f} requests a second, of every kind, through the load balancer, each controller and the ClusterIP of Service
`kubernetes`. [Availability](../availability.md) explains the terms.

{table}

While a controller has no power, its own address isn't probed. Requests in flight on it, through the load balancer and
the ClusterIP, are lost, and count as failed where HTTP allows no retry. Endpoints of Service `kubernetes` are
kube-apiserver's own leases: a dead one is dropped when its lease of 15 s has expired, which no flag changes.
"""


if __name__ == "__main__":
    sys.exit(main())
