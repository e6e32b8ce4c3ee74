"""A run's report, as it is shown at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO, cast

from rich.text import Text

from upgrader.config.yaml_document import shown
from upgrader.engine.report import RecoveryReport, Report, StepReport
from upgrader.model.event import AvailabilityMeasured
from upgrader.ui.availability import availability_line
from upgrader.ui.console import MARKS
from upgrader.ui.progress import State
from upgrader.ui.terminal import console, duration, grid_with_times, show

__all__ = ["OUTCOMES", "print_report", "step_row"]

OUTCOMES = {
    "succeeded": ("✔", "succeeded in", "green"),
    "rolled-back": ("↶", "failed and was rolled back in", "yellow"),
    "failed": ("✘", "failed after", "bold red"),
    "interrupted": ("■", "was interrupted after", "magenta"),
}


def print_report(report: Report, folder: Path, stream: TextIO | None = None) -> None:
    """Print how the run ended, each step with its time, what clients of the API saw, and where the files are."""
    out = console(stream)
    mark, text, style = OUTCOMES[report.outcome]
    goal = f"upgrade to {report.target}" if report.target.startswith("v") else report.target
    title = Text.assemble(f" {mark} ", (goal, "bold"), f" {text} {duration(report.seconds)}", style=style)
    out.print("\n", title, "\n", sep="")
    table = grid_with_times()
    for step in report.steps:
        table.add_row(*step_row(step))
    show(out, table)
    for recovery in report.recoveries:
        out.print("\n ", _recovery(recovery), sep="")
    if report.availability:
        out.print("\n ", availability_line(AvailabilityMeasured(**report.availability)), sep="")
        for line in report.availability.get("failures", ())[:5]:
            out.print(Text(f"   {line}", style="dim"), soft_wrap=True)
    out.print(Text(f"\n Report: {shown(folder / 'report.json')}\n", style="dim"), soft_wrap=True)


def _recovery(recovery: RecoveryReport) -> Text:
    style = {"succeeded": "yellow", "failed": "bold red"}.get(recovery.outcome, "magenta")
    said = {"succeeded": "brought back over SSH in", "failed": "could not be brought back over SSH, after"}
    what = said.get(recovery.outcome, "was being brought back over SSH:")
    return Text.assemble(("API  ", "bold"), (f"{what} {duration(recovery.seconds)}", style), f" ({recovery.reason})")


def step_row(step: StepReport) -> tuple[Text, Text, Text, Text]:
    """A step's line: its mark and name, its gates, its time, and what it did or why it didn't."""
    sign, style = MARKS[cast(State, step.outcome)]
    seconds = step.seconds + step.undo_seconds
    gates = f"{len(step.gates)} gate{'s' * (len(step.gates) != 1)}" if step.gates else ""
    what = step.summary if step.outcome == "passed" else f"{step.outcome}: {step.summary}"
    return (
        Text.assemble(" ", (sign, style), f" {step.name}"),
        Text(gates, style="dim"),
        Text(duration(seconds) if seconds else ""),
        Text(what, style="dim" if step.outcome == "passed" else style),
    )
