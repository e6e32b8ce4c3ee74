"""Prints errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from upgrader.errors import UpgraderError, UsageError, error_name
from upgrader.ui.as_typed import with_folder
from upgrader.ui.terminal import console, filled, printable_text

__all__ = ["print_error"]

_INDENT = 7
"""Details stand below the first word after `Error: `."""


def print_error(error: UpgraderError, stream: TextIO | None = None, *, commands: Sequence[str] = ()) -> None:
    """Print what happened, its details line by line, and what to do about it.

    `commands`: those that take a cluster's folder.
    """
    out = console(stream)
    first, *details = error.message.splitlines() or [""]
    _print(out, Text.assemble(("Error: ", "bold red"), (first, "bold")))
    for line in details:
        _print(out, Text(" " * _INDENT) + Text(line))
    if error.remedy:
        remedy = with_folder(error.remedy, commands, error.folder) if error.folder and commands else error.remedy
        first, *more = remedy.splitlines()
        _print(out, Text.assemble(("Remedy: ", "bold green"), first))
        for line in more:
            _print(out, Text(" " * _INDENT) + Text(line))
    if not isinstance(error, UsageError):
        # What is wrong with a command line or a file, the message says; what became of a cluster needs more words.
        _print(out, Text(f"More: upgrader explain {error_name(error)}", "dim"))


def _print(out: Console, text: Text) -> None:
    # Never break lines that people copy (paths, flags, log lines): the terminal wraps them.
    out.print(filled(printable_text(text), out, _INDENT), soft_wrap=True)
