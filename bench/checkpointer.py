"""`make bench-checkpointer`: what the pod-checkpointer costs a controller on which nothing happens."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from testkit.lab_cluster import LabCluster
from testkit.labs import some_cluster

__all__ = ["Sample", "main", "table"]

_TASKS = "ctr -n k8s.io tasks ls | awk '$3 == \"RUNNING\" {print $1, $2}'"
_IMAGE_OF = "ctr -n k8s.io containers info {container} | grep -m1 '\"Image\"'"
_OF_PROCESS = "grep -E '^Vm(RSS|HWM)' /proc/{pid}/status; cut -d ' ' -f 14,15 /proc/{pid}/stat; getconf CLK_TCK"


@dataclass(frozen=True)
class Sample:
    """One process at one moment: resident memory now and at most, MiB; CPU time since its start, s (/proc)."""

    rss: float
    peak: float
    cpu: float


def main() -> int:
    """Measure at both ends of an idle interval; prints a table."""
    parser = argparse.ArgumentParser(prog="make bench-checkpointer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, metavar="S", help="how long to measure (default: 120)")
    parser.add_argument("--settle", type=float, default=90.0, metavar="S", help="idle time before that (default: 90)")
    parser.add_argument("--lab", type=Path, metavar="FOLDER", help="an adopted lab to measure")
    options = parser.parse_args()
    with some_cluster(options.lab, "bench") as cluster:
        print(_measure(cluster, options.settle, options.seconds))
    return 0


def table(samples: dict[str, tuple[Sample, Sample]], seconds: float) -> str:
    """Markdown: one row for each process, from its samples at the start and end of that many seconds."""
    rows = ["| process | memory (RSS) | at most | CPU |", "|---|---|---|---|"]
    for name, (before, after) in samples.items():
        share = (after.cpu - before.cpu) / seconds
        rows.append(f"| {name} | {after.rss:.1f} MiB | {after.peak:.1f} MiB | {share:.2%} of a core |")
    return "\n".join(rows)


def _measure(cluster: LabCluster, settle: float, seconds: float) -> str:
    print(f"waiting {settle:.0f} s until it is idle, then measuring for {seconds:.0f} s…", file=sys.stderr, flush=True)
    time.sleep(settle)
    processes = _processes(cluster)
    begun = time.monotonic()
    before = {name: _sample(cluster, pid) for name, pid in processes.items()}
    time.sleep(seconds)
    after = {name: _sample(cluster, pid) for name, pid in processes.items()}
    passed = time.monotonic() - begun
    return table({name: (before[name], after[name]) for name in processes}, passed)


def _processes(cluster: LabCluster) -> dict[str, int]:
    """The processes of the checkpointer's image, active and standby: name → PID on the controller."""
    found = {}
    for line in cluster.on_controller("sh", "-c", _TASKS).splitlines():
        container, pid = line.split()
        if "/pod-checkpointer:" in cluster.on_controller("sh", "-c", _IMAGE_OF.format(container=container)):
            command = cluster.on_controller("sh", "-c", f"tr '\\0' ' ' < /proc/{pid}/cmdline").strip()
            found[f"`{command}` ({pid})"] = int(pid)
    if not found:
        raise SystemExit("no pod-checkpointer runs on controller-1")
    return found


def _sample(cluster: LabCluster, pid: int) -> Sample:
    peak, rss, ticks, hertz = cluster.on_controller("sh", "-c", _OF_PROCESS.format(pid=pid)).splitlines()
    cpu = sum(int(count) for count in ticks.split()) / int(hertz)
    return Sample(int(rss.split()[1]) / 1024, int(peak.split()[1]) / 1024, cpu)


if __name__ == "__main__":
    sys.exit(main())
