"""Prints errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from upgrader.cli.ui.as_typed import with_folder
from upgrader.cli.ui.terminal import console, filled, printable_text
from upgrader.errors import UpgraderError, UsageError, error_name

__all__ = ["print_error"]

_INDENT = 7
"""Details stand below the first word after `Error: `."""


def print_error(error: UpgraderError, stream: TextIO | None = None, *, commands: Sequence[str] = ()) -> None:
    """Print what happened, its details line by line, and what to do about it.

    `commands`: those that take a cluster's folder. If the details are longer than the terminal, the first lines are
    repeated after them, as they have scrolled out.
    """
    out = console(stream)
    said, remedy = error.message, error.remedy
    if error.folder and commands:
        said, remedy = (with_folder(each, commands, error.folder) for each in (said, remedy))
    message = _lines("Error: ", "bold red", said)
    message[0].stylize("bold")
    end = _lines("Remedy: ", "bold green", remedy) if remedy else []
    if not isinstance(error, UsageError):
        # What is wrong with a command line or a file, the message says; what became of a cluster needs more words.
        end.append(Text(f"More: upgrader explain {error_name(error)}", "dim"))
    _print(out, message)
    if out.is_terminal and _rows(out, [*message, *end]) >= out.height:
        _print(out, [Text("…"), *message[:2]])
    _print(out, end)


def _lines(word: str, style: str, text: str) -> list[Text]:
    """The first line behind a word, the others indented."""
    first, *others = text.splitlines() or [""]
    return [Text.assemble((word, style), first), *(Text(f"{'':{_INDENT}}{line}") for line in others)]


def _print(out: Console, lines: Iterable[Text]) -> None:
    # Never break lines that people copy (paths, flags, log lines): the terminal wraps them.
    for line in lines:
        out.print(_shown(out, line), soft_wrap=True)


def _shown(out: Console, line: Text) -> Text:
    own = len(line.plain) - len(line.plain.lstrip(" "))
    return filled(printable_text(line), out, max(_INDENT, own))


def _rows(out: Console, lines: Iterable[Text]) -> int:
    """How many of the terminal's they take."""
    return sum(max(1, -(-_shown(out, line).cell_len // out.width)) for line in lines)
