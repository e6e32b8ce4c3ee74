"""`make bench`: how long each part of the main job takes, as a table, and as JSON with --json FILE.

A run's own overhead is its wall time without the steps (Helm and Kubernetes) and the gates.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testkit.api_load import ApiLoad
from testkit.command import REPOSITORY, must, upgrader

__all__ = ["Part", "main", "parts_of_run"]


@dataclass(frozen=True)
class Part:
    """One measured part, in seconds of wall time."""

    name: str
    seconds: float


def main() -> int:
    """Measure on a new lab, which is removed at the end."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--from", dest="start", default="v1.36.3", help="Kubernetes version of the new cluster")
    parser.add_argument("--to", dest="target", default="v1.37.1", help="version to upgrade it to")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    name = f"bench-{os.getpid()}"
    folder = REPOSITORY / ".lab" / name

    parts: list[Part] = []
    availability: Mapping[str, Any] = {}
    try:
        parts.append(_timed("lab up", "lab", "up", "--name", name, "--kubernetes", arguments.start))
        parts.append(_timed("adopt", "-C", folder, "adopt", "--yes"))
        parts.append(_timed("plan", "-C", folder, "plan", "--to", arguments.target))
        with ApiLoad(folder / "kubeconfig") as load:
            parts.append(_timed("run", "-C", folder, "run", "--to", arguments.target, "--yes"))
            seen = load.stop()
        report = next((folder / "runs").glob(f"*-{arguments.target}/report.json"))
        parts += parts_of_run(json.loads(report.read_text()), parts[-1].seconds)
        availability = asdict(seen)
    finally:
        _timed("lab down", "lab", "down", "--force", "--name", name)

    for part in parts:
        print(f"{part.name:44}{part.seconds:9.2f} s")
    print(f"API under load: {seen.requests} requests, {seen.failed} failed, longest gap {seen.longest_gap_ms:.0f} ms")
    if arguments.json:
        figures = {"parts": [asdict(part) for part in parts], "availability": availability}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def parts_of_run(report: Mapping[str, Any], seconds: float) -> list[Part]:
    """The parts of a run that took `seconds` as a process, from its `report.json`; the last one is its overhead."""
    parts = []
    foreign = 0.0
    for step in report["steps"]:
        gates = max((gate["seconds"] for gate in step["gates"]), default=0.0)  # they are checked together
        parts.append(Part(f"  {step['name']}: Helm and Kubernetes", step["apply_seconds"]))
        parts.append(Part(f"  {step['name']}: gates", gates))
        foreign += step["apply_seconds"] + gates
    own = max(0.0, seconds - foreign)
    return [*parts, Part(f"  its own overhead ({own / seconds:.1%} of the run)", own)]


def _timed(name: str, *words: str | Path) -> Part:
    print(f"… {name}", file=sys.stderr, flush=True)
    return Part(name, must(upgrader(*words, timeout_seconds=1800)).seconds)


if __name__ == "__main__":
    sys.exit(main())
