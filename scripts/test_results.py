"""What a run of `make test` took: `python -m scripts.test_results FOLDER` prints the slowest tests of its results."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["last_to_end", "lines_in", "slowest", "waits_of"]

Line = Mapping[str, Any]

_SLOWEST = 20
_WAITS = 3


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


def last_to_end(processes: Mapping[str, Sequence[Line]]) -> str:
    """Which process of tests took longest, and which one ended last, and how long it ran without any other: what is to
    be shortened first, or shared out. "" where there is none.
    """
    begins, ends = dict[str, float](), dict[str, float]()
    for name, lines in processes.items():
        if lines:
            begins[name] = min(float(line["begun"]) for line in lines)
            ends[name] = max(float(line["begun"]) + whole(line) for line in lines)
    if not ends:
        return ""
    longest = max(ends, key=lambda name: ends[name] - begins[name])
    last = max(ends, key=lambda name: ends[name])
    alone = ends[last] - max((end for name, end in ends.items() if name != last), default=begins[last])
    took = f"{longest}, {ends[longest] - begins[longest]:.0f} s"
    return f"longest: {took}; last to end: {last}, which ran alone for {alone:.0f} s"


def main() -> None:
    """Print the results in a folder."""
    folder = Path(sys.argv[-1])
    processes = lines_in(folder)
    together = [line for lines in processes.values() for line in lines]
    print(f"--- the slowest of {len(together)} tests (set-up + call + teardown): what they waited for")
    print("\n".join(slowest(together)))
    for name, lines in processes.items():
        print(f"--- {name}: {len(lines)} tests, {sum(map(whole, lines)):.0f} s; what they waited for")
        print("\n".join(waits_of(lines)))
    print(f"--- {last_to_end(processes)}")


if __name__ == "__main__":
    main()
