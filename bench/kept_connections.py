"""Roll-outs of kube-apiserver under clients that keep HTTP/1.1 connections: `make bench-kept`.

Each client writes through one kept connection, and repeats nothing but what was answered with 429.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.places import PAGES, results_file
from testkit.command import REPOSITORY, must, upgrader
from testkit.kept_connections import KeptConnections, KeptSeen
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

__all__ = ["CLIENTS", "main", "page", "roll"]

CLIENTS: Mapping[float, int] = {0.05: 20, 1.0: 20, 2.0: 20, 4.0: 20}
"""Seconds between two writes of a client → how many such clients."""

_PODS = Kind("v1", "pods")
_OURS = "app.kubernetes.io/name=kube-apiserver"
_CHART = REPOSITORY / "charts" / "kube-apiserver"


def roll(cluster: LabCluster, number: int, controllers: int = 1) -> None:
    """Replace every instance of kube-apiserver; returns once the last old one has ended."""
    cluster.helm(
        *("upgrade", "kube-apiserver", str(_CHART), "--reuse-values", "--set-string", f"podAnnotations.roll=r{number}"),
        *("--wait", "--timeout", "5m"),
        timeout_seconds=320,
    )
    until(
        "the old instances to end",
        lambda: len(cluster.kube.list(_PODS, "kube-system", labels=_OURS)) == controllers,
        timeout_seconds=180,
    )
    time.sleep(5)  # so that every client has written to the new one


def main() -> int:
    """0 when no request failed."""
    parser = argparse.ArgumentParser(prog="make bench-kept", description=__doc__)
    parser.add_argument("--rolls", type=int, default=10, help="how often every instance is replaced")
    parser.add_argument("--controllers", type=int, default=1, help="with 3, clients go through the load balancer")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        cluster = LabCluster(f"kept-{os.getpid()}", Path(home), Path(home) / "kept")
        try:
            cluster.lab("up", "--kubernetes", OLD, "--controllers", str(options.controllers))
            must(cluster.upgrader("adopt", "--yes"))
            seen = _measure(cluster, options.rolls, options.controllers)
        finally:
            upgrader("-C", home, "lab", "down", "--name", cluster.name)
    file = results_file(options.out, "kept-connections.json")
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    results[str(options.controllers)] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "rolls": options.rolls,
        "clients": [asdict(group) for group in seen],
    }
    file.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    text = page(results)
    (options.out / "kept-connections.md").write_text(text)
    print(text)
    return 1 if any(group.failed for group in seen) else 0


def _measure(cluster: LabCluster, rolls: int, controllers: int) -> tuple[KeptSeen, ...]:
    with KeptConnections(cluster.folder / "kubeconfig", CLIENTS) as clients:
        time.sleep(5)  # so that every client has its connection
        for number in range(1, rolls + 1):
            begun = time.monotonic()
            roll(cluster, number, controllers)
            told, failed = (sum(getattr(group, what) for group in clients.seen()) for what in ("told", "failed"))
            print(
                f"roll {number} of {rolls}: {time.monotonic() - begun:.0f} s; so far {told} times 429, {failed} failed",
                file=sys.stderr,
                flush=True,
            )
        seen = clients.stop()
    for group in seen:
        print(*group.failures, sep="\n", file=sys.stderr)
    return seen


def page(results: Mapping[str, Any]) -> str:
    """The page, as Markdown: one table for each number of controllers."""
    parts = [_HEAD]
    for controllers, result in sorted(results.items()):
        how = f"{controllers} controller" + ("s, through the load balancer" if controllers != "1" else "")
        rows = [
            f"| {group['connections']} | {group['period_seconds']:g} | {group['answered']} | {group['told']} "
            f"| {group['failed']} | {group['longest_pause_ms'] / 1000:.1f} |"
            for group in result["clients"]
        ]
        command = f"make bench-kept ROLLS={result['rolls']} CONTROLLERS={controllers}"
        parts.append(
            f"## {how}: {result['rolls']} rolls\n\n`{command}`, {result['date']}, {result['cores']} cores.\n\n"
            "| connections | a write every, s | 2xx | 429 | failed | longest pause, s |\n|---|---|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return "\n".join(parts)


_HEAD = """\
# Kept HTTP/1.1 connections

Every instance of kube-apiserver is replaced, again and again, while clients write: each through one HTTP/1.1 connection
that it keeps, with a `PATCH` a period. They repeat nothing but what was answered with `429`, and then wait for the five
seconds that its `Retry-After` says. `failed` is every other answer, and every connection that was dead when a request
was sent. HTTP/1.1 has no GOAWAY. The longest pause is from the moment at which a write was due to its 2xx.
"""


if __name__ == "__main__":
    sys.exit(main())
