"""Chooses the display of a run."""

from __future__ import annotations

from typing import TextIO

from upgrader.app.front_end import RunDisplay
from upgrader.ui.live_display import ConsoleReporter
from upgrader.ui.plain_log import PlainReporter
from upgrader.ui.terminal import console, is_interactive

__all__ = ["choose_reporter"]


def choose_reporter(stream: TextIO) -> RunDisplay:
    """A live display for a terminal, plain lines for everything else; use it as a context manager."""
    return ConsoleReporter(console(stream)) if is_interactive(stream) else PlainReporter(stream)
