"""Shows which CAs are trusted, and the certificates that they have issued, as a table; and the stage of a rotation."""

from __future__ import annotations

from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.terminal import console, show
from upgrader.model.ca_trust import CaTrust, RotationStage

__all__ = ["print_cas"]

_SHOWN = 16
_STAGES = {
    RotationStage.NONE: "no rotation",
    RotationStage.TRUSTING: "the new CA is not trusted everywhere yet",
    RotationStage.TRUSTED: "both CAs are trusted; the old one signs",
    RotationStage.SIGNING: "both CAs are trusted; the new one is partly in use",
    RotationStage.SIGNED: "both CAs are trusted; the new one signs",
    RotationStage.FINISHING: "the new CA signs; the old one is no longer trusted everywhere",
}


def print_cas(found: CaTrust, stream: TextIO | None = None) -> None:
    """Print the stage and the next command, both CAs by their fingerprints, and a line for each file: which CAs it
    trusts, or which one has issued it.
    """
    out = console(stream)
    show(out, Text(f"stage     {_STAGES[found.stage]}"))
    show(out, Text(f"next      {found.stage.command}"))
    show(out, Text(f"signs     {found.signs[:_SHOWN]}"))
    names = {found.old: "the signing CA", found.new: "the new one"}
    if found.new:
        names[found.old] = "the old one"
        kept = f"its key is on {found.keeper.name}" if found.keeper else "its key is missing"
        show(out, Text(f"old       {found.old[:_SHOWN]}"))
        show(out, Text(f"new       {found.new[:_SHOWN]}, {kept}"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("NODE", no_wrap=True)
    table.add_column("TRUSTS", no_wrap=True)
    table.add_column("FILE", overflow="fold")
    for node in found.nodes:
        for item in node.files:
            trusts = " + ".join(names.get(each, each[:_SHOWN]) for each in item.trusts) or "nothing"
            table.add_row(Text(node.host.name), Text(trusts), Text(item.path))
    show(out, table)
    issued = [(node.host.name, item) for node in found.nodes for item in node.issued if item.by]
    if found.new and issued:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("NODE", no_wrap=True)
        table.add_column("ISSUED BY", no_wrap=True)
        table.add_column("FILE", overflow="fold")
        for name, certificate in issued:
            table.add_row(Text(name), Text(names.get(certificate.by, "")), Text(certificate.path))
        show(out, table)
