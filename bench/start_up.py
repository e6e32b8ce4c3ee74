"""`python -m bench.start_up`: what starting a command costs, as multiples of `python -c "import click"`.

All are started in turn, as often as `--rounds` says, so that whatever else the machine does counts for each. The table
has the medians of the process's own CPU time and of the wall time; only `plan` with `--folder` needs a cluster folder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testkit.command import REPOSITORY

__all__ = ["LIMITS", "Cost", "main", "measure"]

CLICK = "import click"
LIMITS: Mapping[str, float] = {"upgrader --help": 1.5, "upgrader plan --help": 4.0}
"""At most so many times the CPU time of importing click."""
_COMPLETION = {"_UPGRADER_COMPLETE": "bash_complete", "COMP_WORDS": "upgrader rollback --run ", "COMP_CWORD": "3"}


@dataclass(frozen=True)
class Cost:
    """What one process took, in seconds."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class _Command:
    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def main() -> int:
    """Print the table; 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m bench.start_up")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is started (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="a cluster folder: measure `plan --offline` and its imports, too")
    options = parser.parse_args()
    commands = [
        _Command(CLICK, ("-c", CLICK), {}),
        _Command("upgrader --help", ("-m", "upgrader", "--help"), {}),
        _Command("upgrader plan --help", ("-m", "upgrader", "plan", "--help"), {}),
        _Command("completion of a run", ("-m", "upgrader"), _COMPLETION),
    ]
    if options.folder is not None:
        planned = ("-m", "upgrader", "-C", str(options.folder.absolute()), "plan", "--offline")
        commands.append(_Command("upgrader plan --offline", planned, {}))
    found = measure(commands, options.rounds)
    unit = found[CLICK]
    print(f"{'':26}{'CPU':>9}{'× click':>9}{'wall':>9}{'× click':>9}")
    for name, cost in found.items():
        print(f"{name:26}{cost.cpu:7.2f} s{cost.cpu / unit.cpu:9.1f}{cost.wall:7.2f} s{cost.wall / unit.wall:9.1f}")
    return int(any(found[name].cpu > limit * unit.cpu for name, limit in LIMITS.items()))


def measure(commands: Sequence[_Command], rounds: int) -> dict[str, Cost]:
    """The medians, by the commands' names; each is started once before, so that its bytecode is written."""
    seen: dict[str, list[Cost]] = {each.name: [] for each in commands}
    for number in range(rounds + 1):
        for each in commands:
            cost = _started(each)
            if number:
                seen[each.name].append(cost)
    return {
        name: Cost(statistics.median(cost.cpu for cost in costs), statistics.median(cost.wall for cost in costs))
        for name, costs in seen.items()
    }


def _started(command: _Command) -> Cost:
    environment = {**os.environ, **command.environment, "PYTHONPATH": str(REPOSITORY)}
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *command.arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it was waited for
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main())
