"""What is shown while there is nothing to show yet."""

from __future__ import annotations

import io

from testkit.terminal import Terminal
from upgrader.cli.ui.progress_line import ProgressLine


def test_it_takes_one_line_and_leaves_none() -> None:
    """Each text replaces the one before, however long that was; at the end the line is empty."""
    terminal = Terminal()
    line = ProgressLine(terminal)  # type: ignore[arg-type]
    line("x" * 200)
    assert len(terminal.lines[0]) == 79 and terminal.lines[1] == ""
    line("checking… 14 of 40: nodes")
    assert terminal.lines[0] == "checking… 14 of 40: nodes"
    line("")
    assert "".join(terminal.lines) == ""


def test_a_log_gets_nothing() -> None:
    """In a job's log, forty lines of what was checked would hide what was found."""
    stream = io.StringIO()
    ProgressLine(stream)("checking… 14 of 40: nodes")
    assert stream.getvalue() == ""
