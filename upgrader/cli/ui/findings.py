"""Preflight's findings, worst first."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.terminal import console, show
from upgrader.model.finding import Finding, Severity

__all__ = ["draw_findings", "draw_verdict", "on_screen", "print_findings"]

_BELOW = 10
"""Rows that follow the list: the verdict, a short error, and the prompt."""

_STYLES: dict[Severity, tuple[str, str]] = {
    "error": ("✘", "bold red"),
    "unknown": ("?", "bold magenta"),
    "warning": ("!", "yellow"),
    "info": ("i", "blue"),
}


def draw_findings(findings: Sequence[Finding]) -> RenderableType:
    """Prints each finding with its id, why it matters, and the remedy."""
    if not findings:
        return Text(" ✔ ready to run", style="green")
    order = list(_STYLES)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in sorted(findings, key=lambda f: (bool(f.skipped), order.index(f.severity))):
        sign, style = ("-", "dim") if finding.skipped else _STYLES[finding.severity]
        shown = "skipped" if finding.skipped else finding.severity
        table.add_row(Text(f" {sign} {shown}", style=style), _text(finding))
    return table


def print_findings(findings: Sequence[Finding], versions: str, stream: TextIO | None = None) -> None:
    """Print them for an upgrade between these versions (`v1.36.3 → v1.37.1`), with their number in each severity."""
    out = console(stream)
    out.print("\n", Text.assemble((" Checks ", "bold"), versions), "\n", sep="")
    show(out, draw_findings(findings))
    if findings:
        out.print("\n", draw_verdict(findings, "they block the run", "ready to run"), sep="")
    out.print()


def on_screen(findings: Sequence[Finding], stream: TextIO | None = None, *, below: int = 0) -> bool:
    """Whether the list, printed last, stays whole on a terminal of this height; `below`: rows that follow it, too.

    Elsewhere it is not: in a log, the error is what is read first, and it is not on this screen where standard error is
    somewhere else. Colours in a log (FORCE_COLOR) don't make it a terminal.
    """
    out = console(stream)
    together = out.file.isatty() and sys.stderr.isatty()
    return together and len(out.render_lines(draw_findings(findings))) + below + _BELOW <= out.height


def _counted(severity: str, number: int) -> str:
    plural = "s" if number > 1 and severity in ("error", "warning") else ""
    return f"{number} {severity}{plural}"


def draw_verdict(findings: Sequence[Finding], blocked: str, passed: str) -> Text:
    """Their number in each severity, and whether they block the run."""
    counts = Counter("skipped" if finding.skipped else finding.severity for finding in findings)
    numbers = ", ".join(_counted(each, counts[each]) for each in (*_STYLES, "skipped") if counts[each])
    blocks = any(finding.blocking for finding in findings)
    return Text.assemble(f" {numbers}: ", (blocked, "bold red") if blocks else (passed, "green"))


def _text(finding: Finding) -> Text:
    # A title may quote a file: a line's end in it would let the file add lines of its own to the report.
    text = Text.assemble(" ".join(finding.title.split()), "  ", (finding.id, "dim"))
    if finding.skipped:
        text.append(f"\nSkipped by the operator: {finding.skipped}", style="yellow")
    if finding.changed_from:
        text.append(f"\nSeverity set by checks.severities; the check's own is {finding.changed_from}", style="yellow")
    if finding.diagnosis:
        text.append(f"\n{finding.diagnosis}", style="dim")
    if finding.remedy:
        text.append("\nRemedy: ", style="green").append(finding.remedy)
    return text
