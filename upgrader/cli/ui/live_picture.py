"""What live displays share: a picture that is redrawn in place, below the lines that stay, and the rows in it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from math import ceil
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

__all__ = ["Picture", "live_picture", "row", "seconds_since"]


def live_picture(console: Console, draw: Callable[[], RenderableType], per_second: float) -> Picture:
    """A picture that `draw` returns so many times a second, until it is stopped.

    Standard error is part of the same terminal, and what is written there meanwhile stays above it.
    """
    return Picture(
        console=console,
        get_renderable=draw,
        refresh_per_second=per_second,
        transient=True,
        redirect_stdout=False,
    )


class Picture(Live):
    """Is drawn anew from its first line, also after the terminal has become narrower."""

    def __init__(self, *, console: Console, **options: Any) -> None:
        super().__init__(console=console, **options)
        self._unsaid: deque[tuple[Text, ...]] = deque()
        self.failure: Exception | None = None
        """Why it could not be redrawn the last time; it is tried again."""
        self._live_render = _Lines(console, self._live_render.renderable)

    def refresh(self) -> None:
        """As rich's. Between two calls, a failure must not write a traceback over it, and end what redraws it.

        A terminal that takes no output gets no further pictures: each would have to be written once it takes some.
        """
        if threading.current_thread() is self._refresh_thread and getattr(self.console.file, "behind", False):
            return
        try:
            self._say_all()
            super().refresh()
            self.failure = None
        except Exception as error:
            self.failure = error
            if threading.current_thread() is not self._refresh_thread:
                raise

    def say(self, *lines: Text) -> None:
        """Write lines that stay above it, which the terminal may wrap. Once it is started, the next redraw writes them,
        so that a terminal that takes no more output, as after Ctrl-S, keeps no caller waiting.
        """
        self._unsaid.append(lines)
        if not self.is_started:
            self._say_all()

    def _say_all(self) -> None:
        """It isn't redrawn meanwhile: if both were written at once, neither would know how many rows the other has."""
        with self._lock:
            while self._unsaid:
                self.console.print(*self._unsaid.popleft(), sep="\n", soft_wrap=True)


class _Lines(LiveRender):
    """What was drawn last. A terminal that becomes narrower wraps its lines, so that it begins further up than its
    number of lines says.
    """

    def __init__(self, console: Console, renderable: RenderableType) -> None:
        super().__init__(renderable)
        self._console = console
        self._widths: list[int] = []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = list(super().__rich_console__(console, options))
        segments = (each for each in drawn if isinstance(each, Segment))
        self._widths = [Segment.get_line_length(line) for line in Segment.split_lines(segments)]
        yield from drawn

    def position_cursor(self) -> Control:
        if self._shape is not None:
            columns = max(1, self._console.width)
            wrapped = sum(max(0, ceil(width / columns) - 1) for width in self._widths)
            self._shape = self._shape[0], self._shape[1] + wrapped
        return super().position_cursor()


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
