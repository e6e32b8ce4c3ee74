"""Prints errors."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from upgrader.errors import UpgraderError, UsageError, error_name
from upgrader.ui.terminal import console

__all__ = ["print_error"]


def print_error(error: UpgraderError, stream: TextIO | None = None) -> None:
    """Print what happened, its details line by line, and what to do about it."""
    out = console(stream)
    first, *details = error.message.splitlines() or [""]
    _print(out, Text.assemble(("Error: ", "bold red"), (first, "bold")))
    for line in details:
        _print(out, Text(line), indent=7)
    if error.remedy:
        _print(out, Text.assemble(("Remedy: ", "bold green"), error.remedy))
    if not isinstance(error, UsageError):
        # What is wrong with a command line or a file, the message says; what became of a cluster needs more words.
        _print(out, Text(f"More: upgrader explain {error_name(error)}", "dim"))


def _print(out: Console, text: Text, indent: int = 0) -> None:
    # Never break lines that people copy (paths, flags, log lines): the terminal wraps them.
    out.print(
        Padding(text, (0, 0, 0, indent)) if indent and out.is_terminal else Text(" " * indent) + text, soft_wrap=True
    )
