"""Shows two runs side by side."""

from __future__ import annotations

from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.terminal import console, show
from upgrader.reporting.report.comparison import Comparison, difference_text, outcome_text, time_text

__all__ = ["print_comparison"]


def print_comparison(found: Comparison, stream: TextIO | None = None) -> None:
    """Print a line for each step: its time in both runs, the difference, and how it ended."""
    out = console(stream)
    table = Table.grid(padding=(0, 2))
    for place in range(5):
        table.add_column(justify="right" if 0 < place < 4 else "left", no_wrap=place < 4)
    # On two lines: beside another one, a run's name would leave no room for the rest on a narrow terminal.
    names = [run.replace("-", "-\n", 1) if out.is_terminal else run for run in found.runs]
    table.add_row("", *(Text(name, style="bold") for name in names), "", "")
    for row in found.rows:
        change = row.difference
        style = "" if change is None or abs(change) < 1 else "yellow" if change > 0 else "green"
        table.add_row(
            Text(row.name),
            *(Text(time_text(seconds)) for seconds in row.seconds),
            Text(difference_text(row), style=style),
            Text(outcome_text(row), style="dim"),
        )
    table.add_row(Text("API requests failed", style="dim"), *map(Text, found.failed), "", "")
    table.add_row(Text("longest gap of the API", style="dim"), *map(Text, found.gaps), "", "")
    show(out, table)
