"""The outcomes as a table in docs/reliability.md, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.faults.scenario import Moment, Outcome

__all__ = ["Run", "as_json", "merged", "table", "write_into"]

Run = Mapping[str, Any]
"""A run as the JSON has it."""

_BEGIN, _END = "<!-- outcomes: made by `make reliability` -->", "<!-- end of outcomes -->"


def table(runs: Sequence[Run]) -> str:
    """A row for each fault, a column for each moment that was tried."""
    moments = [moment for moment in Moment if any(run["moment"] == moment for run in runs)]
    faults = list(dict.fromkeys(run["fault"] for run in runs))
    lines = ["| fault | " + " | ".join(moments) + " |", "|---|" + "---|" * len(moments)]
    for fault in faults:
        cells = [_cell([run for run in runs if (run["fault"], run["moment"]) == (fault, moment)]) for moment in moments]
        lines.append(f"| {fault} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def as_json(outcome: Outcome) -> Run:
    """What is kept of a run."""
    return {
        "fault": outcome.fault,
        "moment": str(outcome.moment),
        "exit_code": outcome.exit_code,
        "resumed": outcome.resumed,
        "seconds": round(outcome.seconds, 1),
        "said": outcome.words,
        "trouble": outcome.trouble,
    }


def merged(before: Sequence[Run], now: Sequence[Run]) -> list[Run]:
    """Earlier runs, but for those that were measured again."""
    again = {(run["fault"], run["moment"]) for run in now}
    return [*(run for run in before if (run["fault"], run["moment"]) not in again), *now]


def write_into(page: Path, words: str) -> None:
    """Put `words` in place of what is between the page's marks."""
    text = page.read_text()
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    page.write_text(f"{before}{_BEGIN}\n\n{words}\n{_END}{after}")


def _cell(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    last = runs[-1]
    words = {0: "done", 2: "nothing left to do", 3: "refused", 4: "rolled back", 5: "stopped", -1: "**hung**"}
    said = f"{words.get(last['exit_code'], 'failed')} ({last['exit_code']})"
    if last["resumed"] is not None:
        said += f", then {words.get(last['resumed'], 'not resumed')}"
    return f"**{said}: {last['trouble']}**" if last["trouble"] else f"{said}, {last['seconds']:.0f} s"
