"""Standard error that outlasts whoever reads it."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO, cast

__all__ = ["outlast_the_terminal"]


class _Lasting:
    """A stream that goes silent, instead of failing, once nobody is at its other end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._fall_silent()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._fall_silent()

    def _fall_silent(self) -> None:
        """From now on every write works, in any thread and in libraries too: it goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self._stream.fileno(), inheritable=True)
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlast_the_terminal() -> None:
    """Let a closed terminal, or a log's reader that has ended, cost words on standard error and nothing else.

    A run that is under way must end in order, and that includes telling how, to nobody.
    """
    sys.stderr = cast(TextIO, _Lasting(sys.stderr))
