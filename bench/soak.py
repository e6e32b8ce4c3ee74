"""`make soak`: upgrade a cluster and bring it back, over and over, under load; one line a round, totals at the end."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.command import REPOSITORY, Ended, upgrader
from bench.load import ApiLoad
from bench.versions import COMPONENTS, running_versions
from upgrader.adapters.kube import KubeAdapter

__all__ = ["main"]


def main() -> int:
    """0 when every round reached its version and no client's request failed; the lab is removed either way."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--from", dest="start", default="v1.36.3", help="Kubernetes version of the new cluster")
    parser.add_argument("--to", dest="target", default="v1.37.1", help="version to upgrade it to")
    parser.add_argument("--rounds", type=int, default=10, help="how often to upgrade and to go back")
    arguments = parser.parse_args()
    name = f"soak-{os.getpid()}"
    folder = REPOSITORY / ".lab" / name
    kube = KubeAdapter(folder / "kubeconfig")
    bad = requests = failed = 0
    try:
        _must(upgrader("lab", "up", "--name", name, "--kubernetes", arguments.start, timeout_seconds=1800))
        _must(upgrader("-C", folder, "adopt", "--yes"))
        for round_number in range(1, arguments.rounds + 1):
            for version in (arguments.target, arguments.start):
                begun = time.monotonic()
                with ApiLoad(folder / "kubeconfig") as load:
                    if version == arguments.target:
                        _must(upgrader("-C", folder, "run", "--to", version, "--yes"))
                    else:
                        _go_back(folder / "kubeconfig")
                    seen = load.stop()
                reached = {running_versions(kube)[component] for component in COMPONENTS} == {version}
                bad += not reached
                requests, failed = requests + seen.requests, failed + seen.failed
                print(
                    f"round {round_number:3} → {version} {time.monotonic() - begun:6.1f} s "
                    f"{'reached' if reached else 'NOT REACHED'}  {seen.requests:7} requests {seen.failed:3} failed "
                    f"longest gap {seen.longest_gap_ms:5.0f} ms",
                    flush=True,
                )
    finally:
        upgrader("lab", "down", "--name", name)
    print(f"{arguments.rounds} rounds: {requests} requests, {failed} failed; {bad} times the version was not reached")
    return 1 if bad or failed else 0


def _go_back(kubeconfig: Path) -> None:
    """Roll back by plain Helm, later steps first: upgrader itself has no downgrade, only the way back of a run."""
    program = REPOSITORY / ".venv" / "bin" / "helm"
    helm = [str(program), "--kubeconfig", str(kubeconfig), "-n", "kube-system"]
    for release in ("kubernetes", "kube-apiserver"):
        subprocess.run([*helm, "rollback", release, "--wait", "--timeout", "5m"], check=True, capture_output=True)


def _must(ended: Ended) -> None:
    if ended.exit_code:
        print(ended, file=sys.stderr)
        sys.exit(ended.exit_code)


if __name__ == "__main__":
    sys.exit(main())
