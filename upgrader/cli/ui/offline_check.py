"""Shows the problems of a folder, and what was not checked."""

from __future__ import annotations

from typing import TextIO

from rich.text import Text

from upgrader.app.offline_check import CheckedFolder
from upgrader.cli.ui.findings import draw_findings, draw_verdict, on_screen
from upgrader.cli.ui.terminal import console, filled, show

__all__ = ["print_folder"]

_NAMED = 8
"""More families than these for one reason are counted: `-o json` names each."""


def print_folder(checked: CheckedFolder, stream: TextIO | None = None) -> bool:
    """Print the findings, then the checks that need the cluster, so that the findings don't look complete.

    Whether the findings are still on the screen then.
    """
    out = console(stream)
    out.print(
        "\n", Text.assemble((" Checks ", "bold"), f"{checked.target or 'of the folder'}  (offline)"), "\n", sep=""
    )
    if checked.findings:
        show(out, draw_findings(checked.findings))
        out.print("\n", draw_verdict(checked.findings, "the folder is not ready", "the folder is ready"), sep="")
    else:
        out.print(Text(" ✔ the folder is ready", style="green"))
    reasons: dict[str, list[str]] = {}
    for item in checked.not_asked:
        reasons.setdefault(item.reason, []).append(item.check)
    out.print("\n", Text(" Not checked offline", style="bold"), sep="")
    for reason, checks in reasons.items():
        named = ", ".join(checks) if len(checks) <= _NAMED else f"{len(checks)} more families of checks"
        out.print(filled(Text(f" ? {named}: {reason}"), out, 3), soft_wrap=True)
    out.print()
    return on_screen(checked.findings, stream, below=3 + 2 * len(reasons))
