"""What live displays share: a picture that is redrawn in place, below the lines that stay, and the rows in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

__all__ = ["live_picture", "row", "seconds_since"]


def live_picture(console: Console, draw: Callable[[], RenderableType], per_second: float) -> Live:
    """A picture that `draw` returns so many times a second, until it is stopped.

    Standard error is part of the same terminal, and what is written there meanwhile stays above it.
    """
    return Live(
        console=console,
        get_renderable=draw,
        refresh_per_second=per_second,
        transient=True,
        redirect_stdout=False,
    )


def row(*cells: tuple[RenderableType, int | None]) -> Table:
    """One line of cells, each with a fixed width; None takes the rest of the line, and is truncated there."""
    table = Table.grid(padding=(0, 1), expand=True)
    for _, width in cells:
        table.add_column(width=width, ratio=None if width else 1, no_wrap=True, overflow="ellipsis")
    table.columns[-1].justify = "right"
    table.add_row(*(cell for cell, _ in cells))
    return table


def seconds_since(then: datetime | None, now: datetime) -> float:
    """0.0 for a time that is unknown, or is yet to come: clocks differ."""
    return max(0.0, (now - then).total_seconds()) if then else 0.0
