"""Preflight's findings, worst first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from upgrader.model.finding import Finding, Severity

__all__ = ["draw_findings"]

_STYLES: dict[Severity, tuple[str, str]] = {
    "error": ("✘", "bold red"),
    "unknown": ("?", "bold magenta"),
    "warning": ("!", "yellow"),
    "info": ("i", "blue"),
}


def draw_findings(findings: Sequence[Finding]) -> RenderableType:
    """Each finding with its id, why it matters and what to do about it."""
    if not findings:
        return Text(" ✔ no checks block the run", style="green")
    order = list(_STYLES)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in sorted(findings, key=lambda f: order.index(f.severity)):
        sign, style = _STYLES[finding.severity]
        table.add_row(Text(f" {sign} {finding.severity}", style=style), _text(finding))
    return table


def _text(finding: Finding) -> Text:
    text = Text.assemble(finding.title, "  ", (finding.id, "dim"))
    if finding.diagnosis:
        text.append(f"\n{finding.diagnosis}", style="dim")
    if finding.remedy:
        text.append("\nRemedy: ", style="green").append(finding.remedy)
    return text
