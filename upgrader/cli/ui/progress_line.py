"""One line on a terminal with the current activity, until there is output."""

from __future__ import annotations

from typing import TextIO

from upgrader.cli.ui.terminal import console, is_interactive
from upgrader.model.redaction.printable import printable

__all__ = ["ProgressLine"]

_ERASE = "\r\x1b[K"


class ProgressLine:
    """Replaces its own text, and leaves nothing behind. Where the stream is no terminal, nothing is written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._columns = console(stream).width if is_interactive(stream) else 0
        self._shown = ""

    def __call__(self, text: str) -> None:
        """Replace the line; "" erases it."""
        if not self._columns or text == self._shown:
            return
        self._shown = text
        # One column less than there are: the cursor behind the last one would begin a line, which stays.
        self._stream.write(f"{_ERASE}{printable(text)[: self._columns - 1]}")
        self._stream.flush()
