"""`make bench-large`: `upgrader check` on 5,000 nodes, 100,000 pods and 20,000 ConfigMaps."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.large.audit import AuditLog, unpaged
from bench.large.filled import count, fill
from bench.large.measure import measured
from bench.large.objects import Sizes
from bench.large.page import page
from bench.places import PAGES, results_file
from testkit.command import REPOSITORY
from testkit.lab_cluster import TARGET, LabCluster
from testkit.labs import some_cluster

__all__ = ["main"]

_SECONDS, _MEBIBYTES = 60.0, 400.0
_TRIES = 3
"""Of `check` on the large cluster: what else runs on the machine makes one of them slower than another."""
_SETTLE_SECONDS = 2.0
"""By then, the last requests are in the audit log."""


def main() -> int:
    """0 when the limits are kept."""
    usual = Sizes()
    parser = argparse.ArgumentParser(prog="make bench-large", description=__doc__)
    parser.add_argument("--nodes", type=int, default=usual.nodes)
    parser.add_argument("--pods", type=int, default=usual.pods)
    parser.add_argument("--config-maps", type=int, default=usual.config_maps)
    parser.add_argument("--lab", type=Path, metavar="FOLDER", help="an adopted lab with one controller, to be filled")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    with some_cluster(options.lab, "large") as cluster:
        log = AuditLog(cluster)
        log.begin()
        rows = [_check(cluster, log, "as it is")]
        fill(cluster, Sizes(options.nodes, options.pods, options.config_maps))
        large = [_check(cluster, log, f"large, try {number} of {_TRIES}") for number in range(1, _TRIES + 1)]
    figures: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "target": TARGET,
        "seconds": _SECONDS,
        "mebibytes": _MEBIBYTES,
        "rows": [*rows, *large],
        "median_seconds": statistics.median(row["seconds"] for row in large),
    }
    file = results_file(options.out, "large.json")
    known = {**(json.loads(file.read_text()) if file.exists() else {}), "check": figures}
    file.write_text(json.dumps(known, indent=1) + "\n")
    (options.out / "large.md").write_text(page(known))
    in_time = figures["median_seconds"] <= _SECONDS
    kept = all(row["together_mib"] <= _MEBIBYTES and row["exit_code"] in (0, 3) for row in large)
    return 0 if in_time and kept else 1


def _check(cluster: LabCluster, log: AuditLog, what: str) -> dict[str, Any]:
    mark, objects = log.mark(), count(cluster)
    command = [sys.executable, "-m", "upgrader", "-C", str(cluster.folder), "check", "--to", TARGET, "-o", "json"]
    found = measured(command, REPOSITORY)
    time.sleep(_SETTLE_SECONDS)
    ours = [request for request in log.since(mark) if request.ours]
    print(f"{what}: {found.seconds:.1f} s, {found.together_mib:.0f} MiB, {len(ours)} requests", file=sys.stderr)
    findings = [f"{item['severity']} {item['id']}" for item in json.loads(found.stdout)["findings"]]
    return {
        "what": what,
        "objects": objects,
        "exit_code": found.exit_code,
        "seconds": round(found.seconds, 1),
        "cpu_seconds": round(found.cpu_seconds, 1),
        "largest_mib": round(found.largest_mib),
        "together_mib": round(found.together_mib),
        "requests": len(ours),
        "unpaged": dict(unpaged(ours)),
        "load": round(os.getloadavg()[0], 1),
        "findings": findings,
    }


if __name__ == "__main__":
    sys.exit(main())
