"""Standard error that survives a closed terminal."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO, cast

__all__ = ["outlast_the_terminal"]


class _LostTerminal:
    """A stream that discards its output, instead of failing, once its reader is gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._discard()

    def _discard(self) -> None:
        """From now on every write succeeds and is discarded, in any thread and in libraries too."""
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, self._stream.fileno(), inheritable=True)
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlast_the_terminal() -> None:
    """Lose only the output on standard error when the terminal is closed or the reader of a log ends.

    A run in progress must still end in order, and that includes its report.
    """
    sys.stderr = cast(TextIO, _LostTerminal(sys.stderr))
