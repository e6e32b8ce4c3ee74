"""The outcomes as tables in docs/reliability.md, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testkit.faults.scenario import Outcome

__all__ = ["Run", "as_json", "merged", "table", "write_into"]

Run = Mapping[str, Any]
"""A run as the JSON has it."""


def table(runs: Sequence[Run], points: Sequence[str]) -> str:
    """A row for each fault, a column for each of these points that was tested."""
    tried = [run for run in runs if run["moment"] in points]
    columns = [point for point in points if any(run["moment"] == point for run in tried)]
    faults = list(dict.fromkeys(run["fault"] for run in tried))
    lines = ["| fault | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for fault in faults:
        cells = [_cell([run for run in tried if (run["fault"], run["moment"]) == (fault, point)]) for point in columns]
        lines.append(f"| {fault} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def as_json(outcome: Outcome) -> Run:
    """The JSON of a run."""
    return {
        "fault": outcome.fault,
        "moment": str(outcome.moment),
        "exit_code": outcome.exit_code,
        "resumed": outcome.resumed,
        "seconds": round(outcome.seconds, 1),
        "message": outcome.words,
        "trouble": outcome.trouble,
    }


def merged(before: Sequence[Run], now: Sequence[Run]) -> list[Run]:
    """Earlier runs that were not measured again, and the new ones."""
    again = {(run["fault"], run["moment"]) for run in now}
    return [*(run for run in before if (run["fault"], run["moment"]) not in again), *now]


def write_into(page: Path, block: str, words: str) -> None:
    """Replace what is between the page's marks of that block."""
    begin, end = f"<!-- {block}: made by `make reliability` -->", f"<!-- end of {block} -->"
    text = page.read_text()
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{words}\n{end}{after}")


def _cell(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    last = runs[-1]
    words = {0: "done", 2: "nothing left to do", 3: "refused", 4: "rolled back", 5: "stopped", -1: "**hung**"}
    result = f"{words.get(last['exit_code'], 'failed')} ({last['exit_code']})"
    if last["resumed"] is not None:
        result += f", then {words.get(last['resumed'], 'not resumed')}"
    return f"**{result}: {last['trouble']}**" if last["trouble"] else f"{result}, {last['seconds']:.0f} s"
