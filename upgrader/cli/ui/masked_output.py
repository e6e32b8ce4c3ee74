"""Masks secrets in everything that this process writes to standard output and standard error.

What the commands print is made printable before it is broken into lines (`terminal.py`, `plain_log.py`). This is the
last line of defence, also for the tracebacks and warnings of libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from upgrader.model.redaction.printable import printable, shown_on_a_terminal

__all__ = ["mask_output"]


class _MaskedStream:
    """A text stream; the text of one call is masked as a whole."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # On a terminal, control characters are those of the display.
        self._shown = shown_on_a_terminal if stream.isatty() else printable

    def write(self, text: str | bytes) -> int:
        """Bytes, too: click writes a completion's answer so."""
        shown = text.decode(errors="replace") if isinstance(text, bytes) else text
        self._stream.write(self._shown(shown))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError("bytes would not be masked")
        return getattr(self._stream, name)


def mask_output() -> None:
    """Start masking this process's standard output and standard error."""
    sys.stdout = cast(TextIO, _MaskedStream(sys.stdout))
    sys.stderr = cast(TextIO, _MaskedStream(sys.stderr))
