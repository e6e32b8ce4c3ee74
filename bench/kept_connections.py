"""Roll-outs of kube-apiserver under clients that keep their connections: `make bench-kept`.

Each client writes through one kept connection, and repeats nothing but what was answered with 429.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.places import PAGES, results_file
from testkit.command import REPOSITORY, must, upgrader
from testkit.kept_connections import KeptConnections, KeptSeen
from testkit.kept_http2_clients import HTTP2Lane, HTTP2Seen, KeptHTTP2
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

__all__ = ["CLIENTS", "HTTP2_CLIENTS", "Beside", "main", "page", "roll"]

CLIENTS: Mapping[float, int] = {0.05: 20, 1.0: 20, 2.0: 20, 4.0: 20}
"""Seconds between two writes of an HTTP/1.1 client → how many such clients."""

HTTP2_CLIENTS = (
    *(HTTP2Lane(f"every-{period:g}-s", "configmap", period, 20) for period in (0.05, 1.0, 2.0, 10.0)),
    HTTP2Lane("lease", "lease", 2.0, 5),
    HTTP2Lane("controller", "lease", 2.0, 5, watches=5),
)
"""80 that write, five that renew a Lease as leader elections do, and five that have watches on the same connection."""


@dataclass(frozen=True)
class Beside:
    """Which HTTP/1.1 clients work beside those of HTTP/2."""

    says: str
    clients: Mapping[float, int]


BESIDE: Mapping[str, Beside] = {
    "none": Beside("HTTP/2 alone", {}),
    "busy": Beside("with HTTP/1.1 clients that write often", {0.05: 5, 0.2: 5}),
    "all": Beside("with HTTP/1.1 clients", CLIENTS),
}

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
    parser.add_argument("--beside", choices=BESIDE, default="all", help="the HTTP/1.1 clients beside those of HTTP/2")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        cluster = LabCluster(f"kept-{os.getpid()}", Path(home), Path(home) / "kept")
        try:
            cluster.lab("up", "--kubernetes", OLD, "--controllers", str(options.controllers))
            must(cluster.upgrader("adopt", "--yes"))
            seen, http2 = _measure(cluster, options.rolls, options.controllers, BESIDE[options.beside].clients)
        finally:
            upgrader("-C", home, "lab", "down", "--force", "--name", cluster.name)
    file = results_file(options.out, "kept-connections.json")
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    results[f"{options.controllers} {options.beside}"] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "rolls": options.rolls,
        "clients": [asdict(group) for group in seen],
        "http2": [asdict(lane) for lane in http2],
    }
    file.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    text = page(results)
    (options.out / "kept-connections.md").write_text(text)
    print(text)
    return 1 if any(group.failed for group in seen) or any(lane.failed or lane.told for lane in http2) else 0


def _measure(
    cluster: LabCluster, rolls: int, controllers: int, beside: Mapping[float, int]
) -> tuple[Sequence[KeptSeen], Sequence[HTTP2Seen]]:
    kubeconfig = cluster.folder / "kubeconfig"
    with ExitStack() as stack:
        clients = stack.enter_context(KeptConnections(kubeconfig, beside))
        http2 = stack.enter_context(KeptHTTP2(kubeconfig, HTTP2_CLIENTS))
        time.sleep(5)  # so that every client has its connection
        shown = set[str]()
        for number in range(1, rolls + 1):
            begun = time.monotonic()
            roll(cluster, number, controllers)
            so_far = (clients.seen(), http2.seen())
            told, failed = (
                [sum(getattr(group, what) for group in seen) for seen in so_far] for what in ("told", "failed")
            )
            print(
                f"roll {number} of {rolls}: {time.monotonic() - begun:.0f} s; so far, HTTP/1.1: {told[0]} times 429, "
                f"{failed[0]} failed; HTTP/2: {told[1]} times 429, {failed[1]} failed",
                file=sys.stderr,
                flush=True,
            )
            _show_failures(so_far, shown)
        seen = (clients.stop(), http2.stop())
    _show_failures(seen, shown)
    return seen


def _show_failures(seen: tuple[Sequence[KeptSeen], Sequence[HTTP2Seen]], shown: set[str]) -> None:
    """Print the failures that haven't been shown yet."""
    new = {line for groups in seen for group in groups for line in group.failures} - shown
    for line in sorted(new):
        print(line, file=sys.stderr, flush=True)
    shown |= new


def page(results: Mapping[str, Any]) -> str:
    """The page, as Markdown: a table for each number of controllers and each kind of company."""
    parts = [_HEAD]
    for key, result in sorted(results.items()):
        controllers, _, beside = key.partition(" ")
        how = f"{controllers} controller" + ("s, through the load balancer" if controllers != "1" else "")
        rows = [
            f"| HTTP/1.1 | {group['connections']} | {group['period_seconds']:g} | {group['answered']} "
            f"| {group['told']} | {group['failed']} | {group['longest_pause_ms'] / 1000:.1f} |"
            for group in result["clients"]
        ] + [
            f"| HTTP/2{_WITH.get(lane['name'], '')} | {lane['connections']} | {lane['period_seconds']:g} "
            f"| {lane['answered']} | {lane['told']} | {lane['failed']} | {lane['longest_pause_ms'] / 1000:.1f} |"
            for lane in result["http2"]
        ]
        command = f"make bench-kept ROLLS={result['rolls']} CONTROLLERS={controllers} BESIDE={beside}"
        parts.append(
            f"## {how}, {BESIDE[beside].says}: {result['rolls']} rolls\n\n"
            f"`{command}`, {result['date']}, {result['cores']} cores.\n\n"
            "| client | connections | a write every, s | 2xx | 429 | failed | longest pause, s |\n"
            "|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


_WITH = {"lease": ", a Lease", "controller": ", a Lease and five watches"}

_HEAD = """\
# Kept connections

Every instance of kube-apiserver is replaced repeatedly, while clients write: each client keeps one connection, and
sends one `PATCH` in each period. Clients repeat only a request that was answered with `429`, after the five seconds of
its `Retry-After`. `failed` counts every other answer, and every connection that was closed when a request was sent.
HTTP/1.1 has no GOAWAY. HTTP/2 clients use Go's own transport, as client-go does. A pause is measured from the moment a
write was scheduled until its 2xx response; the table shows the longest.
"""


if __name__ == "__main__":
    sys.exit(main())
