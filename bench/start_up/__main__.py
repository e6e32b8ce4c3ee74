"""`python -m bench.start_up`: what starting a command costs, as multiples of `python -c "import click"`; writes
docs/benchmarks/start-up.md.

All are started in turn, as often as `--rounds` says, so that whatever else the machine does counts for each, also for
another version `--beside` this one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.places import PAGES, results_file
from bench.start_up.costs import Cost, Place, cost_of, first_words, imports_of, own_cost
from bench.start_up.folder import filled
from bench.start_up.page import page
from testkit.command import REPOSITORY

__all__ = ["main", "table"]

CLICK = "`import click`"
_TIMES: Mapping[str, float] = {"`--help`": 1.5, "`plan --help`": 4.0}
"""At most so many times the CPU time of importing click."""
_SECONDS: Mapping[str, float] = {"completion of a run": 0.3, "completion of a step": 0.3, "first words": 1.0}
"""At most so many seconds."""
_TALKING = ("check", "plan", "run", "adopt")


def main() -> int:
    """1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m bench.start_up")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is started (default: %(default)s)")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="measure another version, too")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    checkouts = [REPOSITORY, *([options.beside.absolute()] if options.beside else [])]
    with tempfile.TemporaryDirectory() as folder:
        filled(Path(folder))
        every = [_measures(Place(checkout, Path(folder))) for checkout in checkouts]
        seen: list[dict[str, list[Cost]]] = [{name: [] for name in each} for each in every]
        for number in range(options.rounds + 1):
            for measures, costs in zip(every, seen, strict=True):
                for name, measure in measures.items():
                    cost = measure()
                    if number:  # the first writes bytecode
                        costs[name].append(cost)
    rows, late = table(*seen)
    figures: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1),
        "nice": os.nice(0),
        "rounds": options.rounds,
        "beside": _commit(options.beside) if options.beside else "",
        "rows": rows,
    }
    results_file(options.out, "start-up.json").write_text(json.dumps(figures, indent=1) + "\n")
    text = page(figures)
    (options.out / "start-up.md").write_text(text)
    print(text)
    return int(late)


def table(now: Mapping[str, Sequence[Cost]], before: Mapping[str, Sequence[Cost]] | None = None) -> tuple[Any, bool]:
    """The medians, a row for each name, and whether one of this version's is over its limit."""
    unit, unit_before = _median(now[CLICK]), _median(before[CLICK]) if before else None
    rows, late = list[dict[str, Any]](), False
    for name, costs in now.items():
        cost = _median(costs)
        row = {"what": name, "now": _shown(cost, unit), "limit": _limit(name)}
        if before and unit_before:
            row["beside"] = _shown(_median(before[name]), unit_before)
        rows.append(row)
        late |= cost.cpu > _TIMES.get(name, float("inf")) * unit.cpu or cost.wall > _SECONDS.get(name, float("inf"))
    return rows, late


def _measures(place: Place) -> dict[str, Callable[[], Cost]]:
    """What is measured, by its name."""
    _, imported = own_cost(place, "plan", "--offline")
    python = ("-c", "import sys; from upgrader.cli.main import main; sys.exit(main())")  # as the installed script
    return {
        CLICK: lambda: cost_of(place, ("-c", "import click"), {}),
        "`--help`": lambda: cost_of(place, (*python, "--help"), {}),
        "`plan --help`": lambda: cost_of(place, (*python, "plan", "--help"), {}),
        "completion of a run": lambda: cost_of(place, python, _completing("upgrader rollback --run ")),
        "completion of a step": lambda: cost_of(place, python, _completing("upgrader rollback --to ")),
        "`plan --offline`": lambda: own_cost(place, "plan", "--offline")[0],
        "the same imports alone": lambda: imports_of(place, imported),
        "first words": lambda: max((first_words(place, name) for name in _TALKING), key=lambda cost: cost.wall),
    }


def _completing(line: str) -> dict[str, str]:
    return {"_UPGRADER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(cost.cpu for cost in costs), statistics.median(cost.wall for cost in costs))


def _shown(cost: Cost, unit: Cost) -> dict[str, float]:
    shown = {"cpu": cost.cpu, "cpu_times": cost.cpu / unit.cpu, "wall": cost.wall, "wall_times": cost.wall / unit.wall}
    return {name: round(value, 3) for name, value in shown.items()}


def _limit(name: str) -> str:
    if name in _TIMES:
        return f"{_TIMES[name]:g} × CPU"
    return f"{_SECONDS[name]:g} s" if name in _SECONDS else ""


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
