"""Preflight's findings, worst first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
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
    order = list(_STYLES)
    rows: list[RenderableType] = []
    for finding in sorted(findings, key=lambda f: order.index(f.severity)):
        sign, style = _STYLES[finding.severity]
        severity = (f"{sign} {finding.severity:<7}", style)
        rows.append(Text.assemble(" ", severity, f"  {finding.title}  ", (finding.id, "dim")))
        if finding.diagnosis:
            rows.append(Padding(Text(finding.diagnosis, style="dim"), (0, 0, 0, 12), expand=False))
        if finding.remedy:
            rows.append(Padding(Text.assemble(("Remedy: ", "green"), finding.remedy), (0, 0, 0, 12), expand=False))
    return Group(*rows) if rows else Text(" ✔ nothing speaks against the run", style="green")
