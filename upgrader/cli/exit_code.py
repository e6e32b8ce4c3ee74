"""The exit codes of commands that end by themselves, and the one that an exception ends a command with."""

from __future__ import annotations

import click

from upgrader.errors import UpgraderError

__all__ = ["CHANGES", "READ_ENOUGH", "exit_code_of"]

CHANGES = 7
"""Of commands that only show what would be done: there is something to do."""
READ_ENOUGH = 141
"""The exit code of commands whose output isn't read to its end (`| head`): the shell's code for SIGPIPE."""


def exit_code_of(error: BaseException) -> int:
    """130 for a declined question and for Ctrl-C, for both of which click may raise Abort; 1 for a bug."""
    match error:
        case UpgraderError() | click.ClickException() | click.exceptions.Exit():
            return error.exit_code
        case BrokenPipeError():
            return READ_ENOUGH
        case click.exceptions.Abort() | KeyboardInterrupt():
            return 130
        case SystemExit():
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        case _:
            return 1
