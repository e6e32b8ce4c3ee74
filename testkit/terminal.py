"""A terminal of 80×24 like an operator's: what it shows when a command has ended.

A terminal loses what scrolls out at its top: the first screen after a failure is its last 24 lines, including the
prompt's.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyte

from testkit.command import REPOSITORY
from testkit.waiting import stretched

__all__ = [
    "COLUMNS",
    "LINES",
    "PROMPT",
    "Shown",
    "Terminal",
    "on_terminal",
    "this_process_on_terminal",
    "upgrader_on_terminal",
]

COLUMNS, LINES = 80, 24
PROMPT = "$ "
_ENVIRONMENT = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES), "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class Shown:
    """A command that ended, and the lines on the terminal then, from the top, without spaces at their ends."""

    command: str
    exit_code: int
    lines: tuple[str, ...]

    @property
    def words(self) -> str:
        """All text in one line: a sentence that the terminal broke is whole again."""
        return " ".join(" ".join(self.lines).split())

    @property
    def packed(self) -> str:
        """All text without any space: a word that the terminal broke is whole again."""
        return "".join("".join(self.lines).split())

    def lacks(self, *wanted: str) -> list[str]:
        """The texts that aren't on the screen, however it broke them into lines."""
        return [each for each in wanted if "".join(each.split()) not in self.packed]

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass
class Terminal:
    """The terminal itself; it may be written to as to `sys.stderr`."""

    encoding: str = "utf-8"
    _screen: pyte.Screen = field(default_factory=lambda: pyte.Screen(COLUMNS, LINES))

    def __post_init__(self) -> None:
        self._stream = pyte.ByteStream(self._screen)

    def isatty(self) -> bool:
        """It is a terminal."""
        return True

    def write(self, text: str) -> int:
        """As a terminal's driver does, begin each line at the left."""
        self.feed(text.replace("\n", "\r\n").encode())
        return len(text)

    def feed(self, content: bytes) -> None:
        """What a driver sends."""
        self._stream.feed(content)

    def flush(self) -> None:
        """Nothing is buffered."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What stands on it."""
        return tuple(line.rstrip() for line in self._screen.display)


def upgrader_on_terminal(
    *arguments: str | Path,
    shown_as: str = "",
    timeout_seconds: float = 600.0,
    environment: Mapping[str, str] | None = None,
) -> Shown:
    """Run `upgrader ARGUMENTS` on a terminal of its own to its end; `shown_as`: what the operator would have typed."""
    words = tuple(map(str, arguments))
    command = [sys.executable, "-m", "upgrader", *words]
    return on_terminal(
        command,
        shown_as=shown_as or f"upgrader {' '.join(words)}",
        timeout_seconds=timeout_seconds,
        environment={"PYTHONPATH": str(REPOSITORY), **(environment or {})},
    )


def on_terminal(
    command: list[str],
    *,
    shown_as: str,
    timeout_seconds: float = 600.0,
    environment: Mapping[str, str] | None = None,
    answers: Sequence[tuple[str, str | Callable[[], object]]] = (),
    typed_ahead: str = "",
) -> Shown:
    """Run a command on a terminal of its own to its end. Raises TimeoutError after that time; it is killed then.

    `typed_ahead` is in the terminal's buffer when the command starts. `answers` are given one after the other: once the
    words are on the screen, the text is typed, or the function called. "\\x03" is Ctrl-C, "\\x04" Ctrl-D, "\\r" Enter.
    """
    terminal, left = Terminal(), list(answers)
    terminal.write(f"{PROMPT}{shown_as}\n")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    os.write(ours, typed_ahead.encode())
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **_ENVIRONMENT, **(environment or {})},
        start_new_session=True,
        preexec_fn=_take_terminal if answers else None,  # noqa: PLW1509 (this process may have threads: see there)
    ) as process:
        os.close(theirs)
        try:
            for content in _read(ours, time.monotonic() + stretched(timeout_seconds), shown_as):
                terminal.feed(content)
                if left and left[0][0] in " ".join(terminal.lines):
                    _answer(ours, left.pop(0)[1])
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(ours)
    terminal.write(PROMPT)
    return Shown(shown_as, process.returncode, terminal.lines)


def _take_terminal() -> None:
    """Make standard input the terminal of this session, whose Ctrl-C is a signal. Nothing here needs a lock."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _answer(file: int, answer: str | Callable[[], object]) -> None:
    if isinstance(answer, str):
        os.write(file, answer.encode())
    else:
        answer()


def _read(file: int, deadline: float, what: str) -> Iterator[bytes]:
    """The output of the other end, until it is closed."""
    while True:
        readable, _, _ = select.select([file], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise TimeoutError(f"{what} has not ended")
        try:
            content = os.read(file, 65536)
        except OSError:  # EIO: how Linux says that the other end is closed
            return
        if not content:
            return
        yield content


@contextmanager
def this_process_on_terminal() -> Iterator[Terminal]:
    """Standard output and standard error of this process are a terminal, for commands that run on fakes."""
    terminal = Terminal()
    streams, before = (sys.stdout, sys.stderr), {name: os.environ.get(name) for name in _ENVIRONMENT}
    sys.stdout = sys.stderr = terminal
    os.environ.update(_ENVIRONMENT)
    try:
        yield terminal
    finally:
        sys.stdout, sys.stderr = streams
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
