"""Asks on a run's terminal whether a step may start, and why. It never blocks: the run also looks for approvals
elsewhere.
"""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from upgrader.errors import Interrupted
from upgrader.model.event import StepApproved
from upgrader.model.redaction.printable import printable

__all__ = ["ApprovalQuestion"]

_MOST_BYTES = 4096
"""A terminal gives no longer line."""
_MOST_CHARACTERS = 1000


@dataclass
class ApprovalQuestion:
    """Asks on `terminal`, which is read line by line, and writes the prompt with `prompt`. `by` is the name for the
    journal.
    """

    terminal: TextIO
    prompt: Callable[[str], None]
    by: str
    _step: str = ""
    _yes: bool | None = None

    def ask(self, step: str) -> None:
        """Ask. Earlier input is not an answer, as the question had not been shown."""
        self._drop_what_was_typed()
        self._step, self._yes = step, None
        self._prompt()

    @property
    def open(self) -> bool:
        """Whether an answer is still waited for."""
        return bool(self._step)

    def repeat(self) -> None:
        """Ask again, below the output written meanwhile."""
        if self.open:
            self._prompt()

    def withdraw(self) -> None:
        """Stop asking. Incomplete input is discarded, so that the shell doesn't get it."""
        if self.open:
            self._step = ""
            self.prompt("\n")
            self._drop_what_was_typed()

    def answer(self) -> StepApproved | None:
        """The approval, if it was typed since. Raises Interrupted if the answer is no."""
        while self.open and (line := self._line()) is not None:
            if not line:
                self._step = ""
                self.prompt("\n(end of input: no answer is possible here; the run waits for `upgrader approve`)\n")
                return None
            text = " ".join(line.split())[:_MOST_CHARACTERS]
            if self._yes is None:
                self._yes = {"y": True, "yes": True, "n": False, "no": False}.get(text.lower())
            elif text:
                return self._decided(self._step, text)
            self._prompt()
        return None

    def _decided(self, step: str, reason: str) -> StepApproved:
        self._step = ""
        if self._yes:
            return StepApproved(step, self.by, reason)
        raise Interrupted(
            f"{self.by} did not approve step {step}: {reason}",
            remedy="The step was not started; earlier steps are healthy. Run `upgrader resume` to ask again, or "
            "`upgrader rollback` to undo them.",
        )

    def _prompt(self) -> None:
        if self._yes is None:
            self.prompt(f"Approve {printable(self._step)}? [y/n]: ")
        else:
            self.prompt("Why? (for the journal): " if self._yes else "Why not? (for the journal): ")

    def _drop_what_was_typed(self) -> None:
        """Not in the background: input belongs to the shell, and reading would stop the process."""
        file = self.terminal.fileno()
        if not _in_background(file):
            with suppress(termios.error):  # the terminal was closed
                termios.tcflush(file, termios.TCIFLUSH)

    def _line(self) -> str | None:
        """The input; None: nothing yet, "": end of input."""
        file = self.terminal.fileno()
        readable, _, _ = select.select([file], [], [], 0)
        if not readable or _in_background(file):
            return None
        try:
            return os.read(file, _MOST_BYTES).decode(errors="replace")
        except OSError:  # EIO: the terminal was closed
            return ""


def _in_background(file: int) -> bool:
    """Whether this process runs in the background of a shell: reading would stop it in the middle of its run."""
    try:
        return os.tcgetpgrp(file) != os.getpgrp()
    except OSError:  # no shell's terminal
        return False
