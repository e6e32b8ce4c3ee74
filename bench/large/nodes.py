"""`make bench-nodes`: a whole `run` on 1,000 nodes whose kubelets kwok plays, beside the same run without them."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.large.audit import AuditLog
from bench.large.by_kubectl import seconds_by_kubectl
from bench.large.kwok import fake_nodes
from bench.large.page import a_second, page
from bench.large.parts_of_a_run import counted, part_of
from bench.places import PAGES, results_file
from testkit.command import must
from testkit.lab_cluster import TARGET, LabCluster
from testkit.labs import some_cluster

__all__ = ["main"]

_RATIO = 1.3
_A_SECOND = 3.0
"""How many requests gates may send a second, however large the cluster."""
_RUN_SECONDS = 3600.0
_CONTROLLER_MANAGER = {
    # A lab's range has no room for so many nodes; kwok gives their pods addresses of its own.
    "allocate-node-cidrs": "false",
    # As clusters of this size have it: by default, 20 requests a second delete and create a DaemonSet's pods.
    "kube-api-qps": "200",
    "kube-api-burst": "400",
}
_MOST = 8
"""How many kinds of requests a row names."""


def main() -> int:
    """0 when both limits are kept."""
    parser = argparse.ArgumentParser(prog="make bench-nodes", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--lab", type=Path, metavar="FOLDER", help="an adopted lab with one controller")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    with some_cluster(options.lab, "nodes") as cluster:
        cluster.change_values("kubernetes", {"controllerManager": {"extraArgs": _CONTROLLER_MANAGER}})
        log = AuditLog(cluster)
        log.begin()
        rows = [_run(cluster, log, "without them")]
        must(cluster.upgrader("rollback", "--yes", timeout_seconds=_RUN_SECONDS))
        with tempfile.TemporaryDirectory() as logs, fake_nodes(cluster, options.nodes, Path(logs) / "kwok.log"):
            rows.append(_run(cluster, log, f"with {options.nodes:,} nodes"))
            by_kubectl = seconds_by_kubectl(cluster)
    figures: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "target": TARGET,
        "a_second": _A_SECOND,
        "limit": _RATIO,
        "ratio": round(rows[1]["seconds"] / rows[0]["seconds"], 2),
        "rows": rows,
        "by_kubectl": by_kubectl,
        # What is left of it without what Kubernetes takes for a pod on each node.
        "ratio_beside": round((rows[1]["seconds"] - sum(by_kubectl.values())) / rows[0]["seconds"], 2),
    }
    file = results_file(options.out, "large.json")
    known = {**(json.loads(file.read_text()) if file.exists() else {}), "run": figures}
    file.write_text(json.dumps(known, indent=1) + "\n")
    (options.out / "large.md").write_text(page(known))
    return 0 if figures["ratio"] <= _RATIO and max(map(a_second, rows)) <= _A_SECOND else 1


def _run(cluster: LabCluster, log: AuditLog, what: str) -> dict[str, Any]:
    mark, begun = log.mark(), time.monotonic()
    must(cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=_RUN_SECONDS))
    seconds, requests = time.monotonic() - begun, log.since(mark)
    report = cluster.report()
    started = datetime.fromisoformat(report["started"])
    parts = counted(requests, started)
    gates = [request for request in requests if part_of(request, started) == "gates"]
    kinds = Counter(f"{request.verb} {request.resource or request.uri.split('?')[0]}" for request in gates)
    leases = sum(request.resource == "leases" for request in requests)
    print(f"{what}: {seconds:.1f} s, {parts} of {len(requests)} requests", file=sys.stderr, flush=True)
    return {
        "what": what,
        "seconds": round(seconds, 1),
        "steps": {step["name"]: step.get("seconds") for step in report["steps"]},
        "requests": len(requests),
        "leases": leases,
        "parts": parts,
        "most": dict(kinds.most_common(_MOST)),
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    sys.exit(main())
