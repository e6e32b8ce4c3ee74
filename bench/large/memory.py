"""`python -m bench.large.memory`: the memory of what a run reads on 1,000 nodes, beside that on one.

No cluster: the API is served from memory, by this process, and read by one of its own (`bench/large/reading.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.large.page import page
from bench.large.served import cluster_of, kubeconfig_of, pods_of, served
from bench.places import PAGES, results_file
from testkit.command import REPOSITORY

__all__ = ["main", "medians"]

_LIMIT_MIB = 120.0
_SECONDS = 900.0


def main() -> int:
    """0 when the limit is kept."""
    parser = argparse.ArgumentParser(prog="python -m bench.large.memory")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--tries", type=int, default=5, help="how often each is read (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    figures: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "limit": _LIMIT_MIB,
        "tries": options.tries,
        "rows": [_row(nodes, options.tries) for nodes in (1, options.nodes)],
    }
    file = results_file(options.out, "large.json")
    known = {**(json.loads(file.read_text()) if file.exists() else {}), "memory": figures}
    file.write_text(json.dumps(known, indent=1) + "\n")
    (options.out / "large.md").write_text(page(known))
    return int(max(figures["rows"][-1]["peaks"].values()) > _LIMIT_MIB)


def medians(tries: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each part's peaks."""
    return {part: round(statistics.median(each[part] for each in tries), 1) for part in tries[0]}


def _row(nodes: int, tries: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, served(cluster_of(nodes)) as url:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(url)))
        peaks = [_read(kubeconfig) for _ in range(tries)]
    found = medians(peaks)
    load = round(os.getloadavg()[0], 1)
    print(f"{nodes} nodes: {found}, load average {load}", file=sys.stderr, flush=True)
    return {"nodes": nodes, "pods": pods_of(nodes), "peaks": found, "load": load}


def _read(kubeconfig: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.large.reading", str(kubeconfig)]
    ended = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True, timeout=_SECONDS)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
