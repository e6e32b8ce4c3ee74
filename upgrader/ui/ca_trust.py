"""Which CAs are trusted, as a table."""

from __future__ import annotations

from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.model.ca_trust import CaTrust
from upgrader.ui.terminal import console, show

__all__ = ["print_cas"]

_SHOWN = 16


def print_cas(found: CaTrust, stream: TextIO | None = None) -> None:
    """Print both CAs by their fingerprints, and a line for each file: which of them it trusts."""
    out = console(stream)
    show(out, Text(f"signs     {found.signs[:_SHOWN]}"))
    if found.new:
        kept = f"its key is on {found.keeper.name}" if found.keeper else "nobody has its key"
        show(out, Text(f"new       {found.new[:_SHOWN]}, {kept}"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("NODE", no_wrap=True)
    table.add_column("TRUSTS", no_wrap=True)
    table.add_column("FILE", overflow="fold")
    for node in found.nodes:
        for item in node.files:
            known = {found.signs: "the one that signs", found.new: "the new one"}
            names = " + ".join(known.get(each, each[:_SHOWN]) for each in item.trusts) or "nothing"
            table.add_row(Text(node.host.name), Text(names), Text(item.path))
    show(out, table)
