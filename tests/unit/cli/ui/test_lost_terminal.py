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
from upgrader.cli.ui.lost_terminal import outlast_the_terminal
from upgrader.cli.ui.terminal import console
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
from upgrader.cli.ui import lost_terminal
from upgrader.cli.ui.masked_output import mask_output
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
from tests.unit.cli.ui.conftest import BEGIN
from upgrader.model.event import Note
from upgrader.cli.ui.live_display import ConsoleReporter
from upgrader.cli.ui.terminal import console
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


_BEGUN = """
import sys
from upgrader.cli.ui.lost_terminal import outlast_the_terminal
outlast_the_terminal()
"""
_LAST_WORDS = f"""{_BEGUN}
class Word:
    def __init__(self):
        self.itself = self
    def __del__(self, stream=sys.stderr):
        print("the last word", file=stream)
print("the first word", file=sys.stderr)
Word()
"""
_NO_THREADS = f"""{_BEGUN}
import threading
def refused(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refused
print("a word", file=sys.stderr)
print("another", file=sys.stderr)
"""
_NO_FILES = f"""{_BEGUN}
import os
from upgrader.cli.ui import lost_terminal
print("a word", file=sys.stderr)
def refused(file):
    raise OSError(24, "Too many open files")
lost_terminal._discard = refused
kept = os.dup(2)
os.close(2)
print("lost", file=sys.stderr)
os.dup2(kept, 2)
print("another", file=sys.stderr)
"""


def said_by(program: str) -> list[str]:
    """What it writes to standard error; it has to end in order."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=stretched(60), cwd=root, check=True
    )
    return done.stderr.splitlines()


def test_what_is_written_while_the_interpreter_ends() -> None:
    """No thread is left to write it then: a finalizer's text isn't lost, nor waited for."""
    assert said_by(_LAST_WORDS) == ["the first word", "the last word"]


def test_machine_that_starts_no_more_threads() -> None:
    """Where a limit of processes is reached, the text is written all the same."""
    assert said_by(_NO_THREADS) == ["a word", "another"]


def test_text_that_can_not_be_written() -> None:
    """Where not even a file to discard it could be opened, it alone is lost: later ones are written, and no one waits
    for it forever."""
    assert said_by(_NO_FILES) == ["a word", "another"]
