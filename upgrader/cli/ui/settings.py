"""Settings as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.terminal import console, show
from upgrader.config.effective import EffectiveSetting
from upgrader.model.redaction.printable import printable

__all__ = ["print_settings"]


def print_settings(settings: Sequence[EffectiveSetting], stream: TextIO | None = None) -> None:
    """Print a line for each: key, value (`-`: there is none), source."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("SETTING", overflow="fold")
    table.add_column("VALUE", overflow="fold")
    table.add_column("FROM", overflow="fold")
    for each in settings:
        value = each.value if isinstance(each.value, str) else "" if each.value is None else json.dumps(each.value)
        style = "dim" if each.source == "default" else ""
        table.add_row(Text(each.key), Text(printable(value) or "-"), Text(each.source), style=style)
    show(console(stream), table)
