"""`-o json` of every command that acts: its events on standard output, and everything for people on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from upgrader.cli.exit_code import exit_code_of
from upgrader.cli.output import output_option

if TYPE_CHECKING:
    from upgrader.cli.ui.event_stream import EventStream

__all__ = ["EVENTS", "event_stream", "outcome_told", "write_all"]

_KEY = "upgrader.event_stream"


def event_stream() -> EventStream | None:
    """The stream of the command that runs; None where it was not asked for."""
    context = click.get_current_context(silent=True)
    return _stream_of(context) if context else None


def _stream_of(context: click.Context) -> EventStream | None:
    return cast("EventStream | None", context.meta.get(_KEY))


@contextmanager
def outcome_told(context: click.Context) -> Iterator[None]:
    """The last line of the stream, however the command ends."""
    try:
        yield
    except click.exceptions.Exit as told:  # a code that answers what was asked, and no error
        _end(context, told.exit_code, None)
        raise
    except BaseException as error:
        _end(context, exit_code_of(error), error)
        raise
    _end(context, 0, None)


def _end(context: click.Context, exit_code: int, error: BaseException | None) -> None:
    stream = _stream_of(context)
    if stream is not None:
        folder = context.obj if isinstance(context.obj, Path) else Path.cwd()
        stream.end(exit_code, error if exit_code else None, folder)


def _begin(context: click.Context, _: click.Parameter, form: str) -> None:
    if form != "json" or context.resilient_parsing or _KEY in context.meta:
        return
    from upgrader.cli.ui.event_stream import EventStream

    out = sys.stdout.fileno()
    warn = partial(_warn, sys.stderr.write)
    context.meta[_KEY] = EventStream(lambda line: write_all(out, line), warn)
    # Whatever a command prints for people goes where it disturbs no program.
    context.find_root().with_resource(redirect_stdout(sys.stderr))


def _warn(write: Callable[[str], object], text: str) -> None:
    from upgrader.model.redaction.printable import printable

    write(f"{printable(text)}\n")


def write_all(file: int, line: bytes) -> None:
    """By the system alone: no buffer holds half a line when the process is killed."""
    while line:
        line = line[os.write(file, line) :]


EVENTS = output_option(
    "text",
    "json",
    help_text="json: events on standard output, one per line, and everything else on standard error.",
    is_eager=True,
    expose_value=False,
    callback=_begin,
)
