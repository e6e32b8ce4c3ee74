"""Chooses the display of a run."""

from __future__ import annotations

from typing import TextIO

from upgrader.app.front_end import RunDisplay
from upgrader.cli.ui.approval_question import ApprovalQuestion
from upgrader.cli.ui.live_display import ConsoleReporter
from upgrader.cli.ui.plain_log import PlainReporter
from upgrader.cli.ui.terminal import console, is_interactive

__all__ = ["choose_reporter"]


def choose_reporter(
    stream: TextIO, answers: TextIO | None = None, *, by: str = "", program: str = "upgrader"
) -> RunDisplay:
    """A live display for a terminal, plain lines for everything else; use it as a context manager.

    Where `answers` is a terminal, too, the live display asks there for approvals, which are given in the name `by`.
    `program` is how the operator calls upgrader for this cluster.
    """
    if not is_interactive(stream):
        return PlainReporter(stream, program=program)
    if answers is None or not answers.isatty():
        return ConsoleReporter(console(stream), program=program)

    def prompt(text: str) -> None:
        stream.write(text)
        stream.flush()

    return ConsoleReporter(console(stream), question=ApprovalQuestion(answers, prompt, by), program=program)
