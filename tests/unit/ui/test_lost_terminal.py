"""Output after the terminal is lost."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


_FAST = """
import sys
from upgrader.ui import lost_terminal
from upgrader.ui.masked_output import mask_output
lost_terminal._PATIENCE_SECONDS = 0.01
lost_terminal.outlast_the_terminal()
mask_output()
"""
_LOG = f"""{_FAST}
for number in range(5000):
    print(f"line {{number}} {"x" * 100}", file=sys.stderr)
print("over", flush=True)
"""
_RUN = f"""{_FAST}
from tests.unit.ui.conftest import BEGIN
from upgrader.model.event import Note
from upgrader.ui.live_display import ConsoleReporter
from upgrader.ui.terminal import console
with ConsoleReporter(console(sys.stderr)) as reporter:
    for event in (*BEGIN, *(Note(f"note {{number}} {"x" * 60}") for number in range(1000))):
        reporter.emit(event)
print("over", flush=True)
"""


def output_of(program: str, terminal: int, other: int) -> str:
    """What it writes to this terminal, of which nothing is read until the program has done its work."""
    surroundings = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=surroundings, cwd=root) as started:
        os.close(terminal)
        try:
            assert started.stdout is not None
            ready, _, _ = select.select([started.stdout], [], [], stretched(30))
            assert ready and started.stdout.readline() == b"over\n", "it stands still"
            written = bytearray()
            while more := _read(other):
                written += more
            assert started.wait(stretched(60)) == 0
        finally:
            started.kill()
            os.close(other)
    return written.decode()


def _read(file: int) -> bytes:
    try:
        return os.read(file, 65536)
    except OSError:  # EIO: the other end of a terminal is closed
        return b""


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    return reader, writer


@pytest.mark.parametrize("opened", [_pipe, os.openpty])
def test_terminal_that_takes_no_output(opened: Callable[[], tuple[int, int]]) -> None:
    """As after Ctrl-S, nothing waits for it. Later it gets what was kept, and how many lines were not."""
    other, terminal = opened()
    lines = output_of(_LOG, terminal, other).splitlines()
    kept = [each for each in lines if each.startswith("line ")]
    (said,) = (each for each in lines if "not shown" in each)
    assert [int(each.split()[1]) for each in kept] == list(range(len(kept))), "in their order, and no other ones"
    count, what = said.split(" ", 1)
    assert what.startswith("lines not shown: the terminal accepted no output.")
    assert 5000 - len(kept) <= int(count.replace(",", "")) <= 5001 - len(kept), "one may lack its end only"


def test_run_on_a_terminal_that_takes_no_output() -> None:
    """The display of a run keeps no event waiting, and shows each note once the terminal takes output."""
    shown = output_of(_RUN, *reversed(os.openpty()))
    assert all(shown.count(f"note {number} ") >= 1 for number in range(1000)) and "not shown" not in shown
