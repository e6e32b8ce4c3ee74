"""Shows a pipeline that isn't a plan of releases, such as an adoption, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.text import Text

from upgrader.cli.ui.findings import draw_findings
from upgrader.cli.ui.terminal import console, show, steps_grid
from upgrader.model.finding import Finding
from upgrader.pipeline import Pipeline

__all__ = ["print_found", "print_steps"]


def print_steps(pipeline: Pipeline, findings: Sequence[Finding] = (), stream: TextIO | None = None) -> None:
    """Print each step in its order, with its summary; then the findings, if there are any."""
    out = console(stream)
    table = steps_grid()
    for number, item in enumerate(pipeline.steps, 1):
        table.add_row(Text(f" {number}", style="dim"), Text(item.step.name, style="bold"), Text(item.step.summary()))
    out.print()
    show(out, table)
    if findings:
        print_found(findings, stream)
    out.print()


def print_found(findings: Sequence[Finding], stream: TextIO | None = None) -> None:
    """Print the findings of checks, before any question or change."""
    if findings:
        out = console(stream)
        out.print()
        show(out, draw_findings(findings))
