"""Lines for people on standard error. Apart from what runs need: that takes a second to import."""

from __future__ import annotations

__all__ = ["say"]


def say(text: str) -> None:
    """A line on standard error; others' words in it control nothing."""
    from rich.text import Text

    from upgrader.cli.ui.terminal import console, filled, printable_text

    out = console()
    for line in text.split("\n"):
        out.print(filled(printable_text(Text(line)), out), soft_wrap=True)
