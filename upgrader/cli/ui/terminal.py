"""The terminal, and how times and tables are shown on it."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from upgrader.model.redaction.printable import printable
from upgrader.model.time_text import duration, milliseconds

__all__ = [
    "console",
    "duration",
    "filled",
    "grid_with_times",
    "is_interactive",
    "milliseconds",
    "print_line",
    "printable_text",
    "show",
    "steps_grid",
]


_SIGNS = "✓▸░⠋…"
"""Of the displays that are redrawn, some of each kind."""
_RUNS = re.compile(" *[^ ]+")
"""A word, with the spaces before it."""


class _PrintableConsole(Console):
    """A console that makes text printable and masks it before it is broken into lines."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich's."""
        if isinstance(renderable, str):
            shown = printable(renderable)
            renderable = renderable if shown == renderable else Text(shown)  # `[masked]` is no markup
        elif isinstance(renderable, Text):
            renderable = printable_text(renderable)
        return super().render(renderable, options)

    def on_broken_pipe(self) -> None:
        """Raise the caught error, as other streams do: rich would end the process with 1, our code for a bug."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def printable_text(text: Text) -> Text:
    """The text as it may be shown; one that changes keeps only its own style."""
    plain = printable(text.plain)
    if plain == text.plain:
        return text
    return Text(plain, text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap, end=text.end)


def console(stream: TextIO | None = None) -> Console:
    """A console on stderr, or on a stream. Without a terminal, lines are as long as they need to be."""
    stream = stream or sys.stderr
    width = None if stream.isatty() else 200
    return _PrintableConsole(file=stream, highlight=False, soft_wrap=False, width=width)


def show(out: Console, renderable: RenderableType) -> None:
    """Print; outside a terminal without trailing spaces."""
    if out.is_terminal:
        out.print(renderable)
        return
    with out.capture() as captured:
        out.print(renderable)
    out.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
    out.file.flush()  # a question on stderr must not come before what it is about


def grid_with_times() -> Table:
    """A table of four columns without lines: name, state, duration, and text of any length."""
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.columns[2].justify = "right"
    table.add_column(overflow="fold")
    return table


def steps_grid() -> Table:
    """A table without lines: a step's number and its name, which are never broken, and text of any length."""
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def print_line(out: Console, text: Text, indent: int = 0) -> None:
    """Print one line, as `filled` has it on a terminal."""
    out.print(filled(printable_text(text), out, indent), soft_wrap=True)


def filled(text: Text, out: Console, indent: int = 0) -> Text:
    """One line, to be printed with `soft_wrap`, with spaces where a terminal would break a word in its middle.

    The word begins the next line, `indent` columns from its beginning. It stays one line: what is copied from there has
    more spaces in it, and no line end that a shell would take for that of a command. Elsewhere nothing is changed.
    """
    if not out.is_terminal:
        return text
    width = out.width
    indent = min(indent, width // 3)
    made, column = Text(style=text.style), 0
    for part in text.divide([each.start() for each in _RUNS.finditer(text.plain)][1:]):
        word = part.plain.lstrip(" ")
        gap, length = len(part.plain) - len(word), cell_len(word)
        if column and column + gap + length > width and length <= width - indent:
            made.append(" " * (width - column + indent))
            part, column, gap = part[gap:], indent, 0
        made.append_text(part)
        column = (column + gap + length - 1) % width + 1
    return made


def is_interactive(stream: TextIO) -> bool:
    """Whether a display may redraw itself there: a terminal that isn't dumb, and whose encoding has its signs. Of each
    one that is missing, six characters would be written, and the display would not know where its lines are.
    """
    try:
        _SIGNS.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return stream.isatty() and not Console(file=stream).is_dumb_terminal
