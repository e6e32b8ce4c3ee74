"""What is drawn in place, on a terminal that changes its size."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from upgrader.cli.ui.live_picture import live_picture


@pytest.mark.parametrize(("columns", "up"), [(80, 2), (100, 2), (40, 3), (20, 5)])
def test_picture_on_a_terminal_that_was_resized(columns: int, up: int) -> None:
    """A narrower terminal has wrapped the picture's lines: the next one begins where those do, and leaves none."""
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True, legacy_windows=False)
    picture = live_picture(console, lambda: Text(f"{'x' * 79}\nshort\n", no_wrap=True), 1e-3)
    picture.start(refresh=True)
    try:
        console.width = columns
        begun = out.tell()
        picture.refresh()
        assert out.getvalue()[begun:].partition("x")[0].count("\x1b[1A") == up
    finally:
        picture.stop()
