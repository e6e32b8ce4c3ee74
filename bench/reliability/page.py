"""The outcomes as a table in docs/reliability.md, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.faults.scenario import Moment, Outcome

__all__ = ["as_json", "table", "write_into"]

_BEGIN, _END = "<!-- outcomes: made by `make reliability` -->", "<!-- end of outcomes -->"


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each fault, a column for each moment that was tried."""
    moments = [moment for moment in Moment if any(each.moment is moment for each in outcomes)]
    faults = list(dict.fromkeys(each.fault for each in outcomes))
    lines = ["| fault | " + " | ".join(moments) + " |", "|---|" + "---|" * len(moments)]
    for fault in faults:
        cells = [_cell([e for e in outcomes if e.fault == fault and e.moment is moment]) for moment in moments]
        lines.append(f"| {fault} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def as_json(outcomes: Sequence[Outcome]) -> list[Mapping[str, Any]]:
    """One object for each run."""
    return [
        {
            "fault": each.fault,
            "moment": str(each.moment),
            "exit_code": each.exit_code,
            "resumed": each.resumed,
            "seconds": round(each.seconds, 1),
            "said": each.words,
            "trouble": each.trouble,
        }
        for each in outcomes
    ]


def write_into(page: Path, words: str) -> None:
    """Put `words` in place of what is between the page's marks."""
    text = page.read_text()
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    page.write_text(f"{before}{_BEGIN}\n\n{words}\n{_END}{after}")


def _cell(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    last = outcomes[-1]
    words = {0: "done", 3: "refused", 4: "rolled back", 5: "stopped", -1: "**hung**"}
    said = f"{words.get(last.exit_code, 'failed')} ({last.exit_code})"
    if last.resumed is not None:
        said += f", then {words.get(last.resumed, 'not resumed')}"
    return f"**{said}: {last.trouble}**" if last.trouble else f"{said}, {last.seconds:.0f} s"
