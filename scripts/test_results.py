"""What a run of `make test` took: `python -m scripts.test_results FOLDER` prints the slowest tests of its results.

`--record` writes `tests/seconds.json`, by which the next run shares its tests out, from those results.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sharing import SECONDS

__all__ = ["lines_in", "seconds_of_groups", "slowest", "waits_of"]

Line = Mapping[str, Any]

_SLOWEST = 20
_WAITS = 3
_SHARING = "lab-"
"""How the processes are named that share tests."""
_CLUSTER = "a cluster"
"""What tests/conftest.py calls the wait for the shared one."""


def lines_in(folder: Path) -> dict[str, list[Line]]:
    """Process → the lines of its tests, as `tests/durations.py` wrote them."""
    files = sorted(folder.glob("*.jsonl"))
    return {file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in files}


def whole(line: Line) -> float:
    """The seconds of a test with its fixtures."""
    return sum(float(line.get(phase, 0.0)) for phase in ("setup", "call", "teardown"))


def slowest(lines: Sequence[Line], count: int = _SLOWEST) -> list[str]:
    """A line of text for each of the slowest tests: its seconds, by phase, and what it waited for most."""
    told = []
    for line in sorted(lines, key=whole, reverse=True)[:count]:
        phases = " + ".join(f"{float(line.get(phase, 0.0)):.0f}" for phase in ("setup", "call", "teardown"))
        waits = ", ".join(f"{what} {seconds:.0f}" for what, seconds in list(line["waits"].items())[:_WAITS])
        told.append(f"{whole(line):6.0f} s ({phases})  {line['test']}{f': {waits}' if waits else ''}")
    return told


def waits_of(lines: Sequence[Line]) -> list[str]:
    """A line of text for each kind of wait that took longest in all: its seconds."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        for what, waited in line["waits"].items():
            seconds[what] += waited
    return [f"{seconds[what]:6.0f} s  {what}" for what in sorted(seconds, key=lambda each: -seconds[each])[:_SLOWEST]]


def seconds_of_groups(lines: Sequence[Line]) -> dict[str, float]:
    """Group → the seconds of its tests without waits for a cluster, which another order of the tests would change."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        seconds[str(line["group"])] += whole(line) - float(line["waits"].get(_CLUSTER, 0.0))
    return {name: round(seconds[name], 1) for name in sorted(seconds)}


def main() -> None:
    """Print the results in a folder, or record them."""
    folder = Path(sys.argv[-1])
    processes = lines_in(folder)
    together = [line for lines in processes.values() for line in lines]
    if "--record" in sys.argv:
        shared = [line for name, lines in processes.items() if name.startswith(_SHARING) for line in lines]
        SECONDS.write_text(f"{json.dumps(seconds_of_groups(shared), indent=1)}\n")
        return
    print(f"--- the slowest of {len(together)} tests (set-up + call + teardown): what they waited for")
    print("\n".join(slowest(together)))
    for name, lines in processes.items():
        print(f"--- {name}: {len(lines)} tests, {sum(map(whole, lines)):.0f} s; what they waited for")
        print("\n".join(waits_of(lines)))


if __name__ == "__main__":
    main()
