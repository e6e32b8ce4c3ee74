"""The measurements as a page for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["page"]

_PAGE = """\
# What starting a command costs

`python -m bench.start_up{beside}`, {date}, {cores} cores, load average {load:.0f}{nice}: medians of {rounds}, and
multiples of `python -c "import click"`. *Completion*: in a folder with twenty runs. *First words*: until the slowest of
`check`, `plan`, `run` and `adopt` shows something on a terminal. *plan --offline*: one small chart, without Helm.

{table}
"""


def page(figures: Mapping[str, Any]) -> str:
    """The page, as Markdown."""
    beside = figures["beside"]
    columns = ["", "CPU, s", "s", "limit"]
    if beside:
        columns[3:3] = [f"CPU of commit {beside}, s", f"commit {beside}, s"]
    rows = [[row["what"], *_figures(row["now"]), *_figures(row.get("beside")), row["limit"]] for row in figures["rows"]]
    lines = [columns, ["---"] * len(columns), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    option = " --beside CHECKOUT" if beside else ""
    nice = f", nice {figures['nice']}" if figures["nice"] else ""
    return _PAGE.format(**{**figures, "beside": option, "nice": nice, "table": table})


def _figures(cost: Mapping[str, float] | None) -> list[str]:
    if cost is None:
        return []
    cpu = f"{cost['cpu']:.2f} ({cost['cpu_times']:.1f} ×)" if cost["cpu"] else ""
    return [cpu, f"{cost['wall']:.2f} ({cost['wall_times']:.1f} ×)"]
