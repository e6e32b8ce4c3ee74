"""Output after the terminal is lost."""

from __future__ import annotations

import subprocess
import sys

from testkit.waiting import stretched

_PROGRAM = """
import sys, click
from upgrader.ui.lost_terminal import outlast_the_terminal
from upgrader.ui.terminal import console
outlast_the_terminal()
sys.stdin.readline()
for _ in range(3):
    click.echo("a word", err=True)
    console().print("another")
    sys.stderr.flush()
sys.exit(7)
"""


def test_closed_terminal_costs_words_only() -> None:
    """With the other end of standard error closed, the program runs to its end, with its own exit code."""
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None and program.stdin is not None
        program.stderr.close()
        program.stdin.write("\n")
        program.stdin.close()
        assert program.wait(stretched(60)) == 7
