"""`python -m bench.rehearsal.beside`: how long clients wait for the API while a rehearsal is under way beside it.

On a lab with one controller and one worker, which is the inventory's group `rehearsal`. Windows with a rehearsal on the
controller, with one on the worker, and without any take turns, so that what else this machine does meets all of them.
So do two controls, with busy loops instead: in a unit such as a rehearsal's, and in one as any other service. What the
first one adds is this machine's, as its processors are few and share their caches, and not the rehearsal's; what the
second one adds is what a rehearsal would, if it were not last in line. The prober has its own share of these processors
in all windows. The worker and the commands of `upgrader` are on other machines in production, and get what is left.
Writes bench/results/rehearsal-beside.json; `python -m bench.rehearsal --page` makes the page from it.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import yaml

from bench.places import RESULTS
from bench.rehearsal.elsewhere import own_processes, whole_node
from scripts.soak import commit_of
from testkit.command import REPOSITORY, must
from testkit.lab_cluster import TARGET, LabCluster
from testkit.labs import some_cluster
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.lab.lifecycle import Lab
from upgrader.lab.nspawn_machine import machine_of
from upgrader.onhost.rehearsal import last_in_line
from upgrader.steps.rehearsal.unit import unit_command, unit_name

__all__ = ["FILE", "Window", "lines", "main", "recorded"]

FILE = RESULTS / "rehearsal-beside.json"
_HOST = "worker-1"
_WAYS = {"on the controller": (), "on another machine": ("--on", _HOST)}
"""What goes on in a window → further options of `rehearse`."""
_NONE, _BUSY, _SERVICE = "none", "none, but busy loops in its unit", "none, but busy loops in another unit"
_ALL = (_NONE, _BUSY, _SERVICE, *_WAYS)
_USE, _WORK = "beside", "/var/lib/upgrader-beside"
_LOOPS = """
import os, time
last_in_line({unit!r})
for _ in range(4 * (os.cpu_count() or 1) - 1):
    if not os.fork():
        break
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    sum(range(10000))
"""
"""As many as a rehearsal has busy threads, or more."""


@dataclass(frozen=True)
class Window:
    """What clients saw in one window."""

    way: str
    seconds: float
    requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    stalled_ms: float
    """The longest time for which the prober itself was not scheduled, which is in no latency of the server's."""
    load: float
    date: str
    commit: str


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if no request failed, and each rehearsal compared both versions."""
    parser = argparse.ArgumentParser(prog="python -m bench.rehearsal.beside", description=__doc__)
    parser.add_argument("--lab", type=Path, help="an adopted lab with a worker, …/.lab/NAME; without it, one is made")
    parser.add_argument("--rounds", type=int, default=5, help="windows of each way")
    parser.add_argument("--objects", type=int, default=2000, help="ConfigMaps of a kilobyte that are stored before")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    given = parser.parse_args(arguments)
    commit = commit_of(REPOSITORY)
    windows: list[Window] = []
    with some_cluster(given.lab, "beside", "--workers", "1") as cluster, whole_node(_group(cluster)):
        _name_the_host(cluster)
        for number in range(given.objects):
            manifest = {"metadata": {"name": f"beside-{number}"}, "data": {"text": "x" * 1000}}
            cluster.kube.apply(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **manifest}, "default")
        seconds = _window(cluster, "on the controller", given.rate, 0.0, commit).seconds  # images are pulled and read
        for _ in range(given.rounds):
            for way in _ALL:
                window = _window(cluster, way, given.rate, seconds, commit)
                print(json.dumps(asdict(window)), flush=True)
                windows.append(window)
                FILE.write_text(json.dumps([asdict(each) for each in windows], indent=1) + "\n")
    return 1 if any(window.failed for window in windows) else 0


def _name_the_host(cluster: LabCluster) -> None:
    file = cluster.folder / "hosts.yml"
    inventory = yaml.safe_load(file.read_text())
    inventory["all"]["children"]["rehearsal"] = {"hosts": {_HOST: None}}
    file.write_text(yaml.safe_dump(inventory, sort_keys=False))


def _window(cluster: LabCluster, way: str, rate: float, seconds: float, commit: str) -> Window:
    """`seconds` is the length of a window without a rehearsal."""
    with AvailabilityProbe(cluster.folder / "kubeconfig", requests_per_second=rate) as probe:
        begun = time.monotonic()
        if way == _NONE:
            time.sleep(seconds)
        elif way in _WAYS:
            with own_processes():  # not the prober, which was started before
                must(cluster.upgrader("rehearse", "--to", TARGET, *_WAYS[way]))
        else:
            cluster.on_controller(*_busy(seconds, last=way == _BUSY))
        took, load = time.monotonic() - begun, os.getloadavg()[0]
        seen = probe.stop()
    return Window(
        way,
        round(took, 1),
        seen.requests,
        seen.failed,
        seen.latency.p50,
        seen.latency.p99,
        seen.stalled_ms,
        round(load, 1),
        f"{datetime.now(UTC):%Y-%m-%d}",
        commit,
    )


def _group(cluster: LabCluster) -> str:
    """The control group of the machine that is another one in production."""
    placement = Lab.find(cluster.name).placement
    return machine_of(placement, placement.node(_HOST)).group


def _busy(seconds: float, *, last: bool) -> tuple[str, ...]:
    """A command for the controller: busy loops in a unit as a rehearsal's (`last`), or in an ordinary one."""
    unit = unit_name(_USE) if last else "none"
    program = inspect.getsource(last_in_line) + _LOOPS.format(unit=unit, seconds=seconds)
    start = unit_command(_USE, _WORK, int(seconds) + 60) if last else ("systemd-run", "--quiet", "--collect", "--wait")
    return "sh", "-c", 'mkdir -p "$0" && exec "$@"', _WORK, *start, "python3", "-I", "-c", program


def recorded() -> list[Window]:
    """The windows of the last measurement."""
    return [Window(**each) for each in json.loads(FILE.read_text())] if FILE.exists() else []


def lines(windows: Sequence[Window]) -> list[str]:
    """The section of docs/benchmarks/rehearsal.md; none without windows."""
    if not windows:
        return []
    newest, told = windows[-1], []
    alone = median(window.p99_ms for window in windows if window.way == _NONE)
    for way, title in _TITLES.items():
        p99 = [window.p99_ms for window in windows if window.way == way]
        told.append(f"{title} {median(p99):.0f} ({min(p99):.0f}–{max(p99):.0f}; × {median(p99) / alone:.2f})")
    requests, failed = sum(window.requests for window in windows), sum(window.failed for window in windows)
    text = _SECTION.format(
        date=newest.date,
        commit=newest.commit,
        windows=len(windows) // len(_ALL),
        told=", ".join(told),
        requests=f"{requests:,}",
        failed=failed,
    )
    return [
        "\n## Clients during a rehearsal\n\n",
        *(f"{line}\n" for line in textwrap.wrap(text, 120, break_on_hyphens=False)),
    ]


_TITLES = {
    _NONE: "without a rehearsal",
    "on the controller": "with one on the controller",
    "on another machine": "with one on another node",
    _BUSY: "with eight busy loops in a rehearsal's unit",
    _SERVICE: "with the same loops in an ordinary unit",
}
_SECTION = (
    "`python -m bench.rehearsal.beside` ({date}, `{commit}`), {windows} windows of each kind in turn, on a lab whose "
    "nodes share two cores. The API's 99th percentile in ms, as median with minimum and maximum: {told}. Of {requests} "
    "requests, {failed} failed. The goal, × 1.10, is not reached here "
    "([why](../adr/0069-clients-wait-longer-beside-a-rehearsal.md))."
)


if __name__ == "__main__":
    sys.exit(main())
