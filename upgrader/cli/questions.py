"""What a command asks before it acts, and what follows a yes: the run, its report, and the error of its outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from upgrader.cli.events_option import event_stream
from upgrader.cli.notices import say
from upgrader.errors import UsageError

if TYPE_CHECKING:
    from upgrader.app.execution import FinishedRun

__all__ = ["START", "agrees", "conclude", "confirm", "start", "write_files"]

START = "Start?"
"""What is asked before a command acts, where its plan says what that will do."""


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`; ends the command if the answer is no. Raises UsageError if no one can answer."""
    if yes:
        return
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort as stopped:
        if not isinstance(stopped.__context__, EOFError):
            raise
        click.echo(err=True)  # the error isn't a part of the question
        raise UsageError(
            f"{question!r} needs an answer, but standard input is closed",
            remedy="Pass --yes to skip the question, as in a job.",
        ) from None


def agrees(question: str) -> bool:
    """Whether somebody at a terminal says yes to what is only offered: elsewhere, and by Ctrl-C, the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        return False


class _Proposed(Protocol):
    """What a use case proposes."""

    def execute(self) -> FinishedRun: ...


def start(proposed: _Proposed, *, yes: bool, question: str = START) -> None:
    """Ask, unless `yes`; then carry out what was proposed, print the run's report, and raise its error."""
    confirm(question, yes=yes)
    conclude(proposed.execute())


def write_files(new: Collection[Path], write: Callable[[], None], *, yes: bool) -> None:
    """Name new files, ask, unless `yes`, and write them. Raises UsageError for what the folder doesn't allow."""
    say("\n".join(f"will write: {path}" for path in new))
    confirm("Write these files?", yes=yes)
    try:
        write()
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}", remedy="Check the folder's permissions.") from error


def conclude(finished: FinishedRun) -> None:
    """Print the run's report, and raise the error of its outcome."""
    from upgrader.cli.ui.summary import print_report

    stream = event_stream()
    if stream is not None:
        stream.ended(finished.state, finished.folder)
    print_report(finished.state, finished.folder)
    if finished.error is not None:
        raise finished.error
