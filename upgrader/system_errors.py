"""Errors of this machine's system that no module expected: a full disk, a read-only folder, a name that is too long.

A module that opens a file which may well be missing or damaged has a message of its own. This is for all other places:
what the system says, about which file, and what to do, instead of a traceback.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upgrader.errors import ChangedMeanwhile, Interrupted, MachineFailed, StepFailed, UpgraderError, UsageError
from upgrader.model.run_kind import RunKind

__all__ = ["refused_by_the_system", "refusals_fail_the_step", "run_ended_by_the_system"]

_FULL = "Free disk space there, or raise the quota. To see what is left: df -h {places}"
_READ_ONLY = "It is on a read-only file system: mount it writable, or use another folder."
_DENIED = "Give the user of upgrader access to it. To see its owner and mode: ls -ld {path}"
_BROKEN = "The disk, or the server of a network file system, has failed: see the kernel's log (dmesg)."
_LIMIT = "Raise the limit of open files for this user: ulimit -n."
_MEMORY = "Free memory on this machine, or use one with more."
_PATH = "Correct the path."
_GONE = "Change into a folder that exists, and check that TMPDIR is one that can be written."
_UNEXPECTED = "Check {places}, then run it again. If it happens again, report it, with the run's folder."
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EIO: _BROKEN,
    errno.ESTALE: _BROKEN,
    errno.EMFILE: _LIMIT,
    errno.ENFILE: _LIMIT,
    errno.ENOMEM: _MEMORY,
    errno.ENOTDIR: _PATH,
    errno.EISDIR: _PATH,
    errno.ENAMETOOLONG: _PATH,
    errno.ELOOP: _PATH,
    errno.ENOENT: _GONE,
}
_WITHOUT_FILE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOENT}
)
"""What the system says of no file in particular, or of one that is open already: the others are a bug without one."""

_END_THE_RUN = (KeyboardInterrupt, SystemExit, Interrupted, ChangedMeanwhile)
"""They are no failure of a step: an undo might revert what another process does now."""


def refused_by_the_system(error: OSError, folder: Path | None) -> UsageError | None:
    """The same as an error of the command's environment; None for one that may be a bug. `folder`: the cluster's."""
    said = _said(error, folder)
    return UsageError(said[0], remedy=said[1]) if said else None


def run_ended_by_the_system(error: OSError, folder: Path, kind: RunKind) -> UpgraderError | None:
    """The same where it ended a run: it was left as it was, and can be continued. None for one that may be a bug."""
    said = _said(error, folder)
    if said is None:
        return None
    again = "`upgrader resume`" if kind is RunKind.UPGRADE else "run the same command again"
    return MachineFailed(f"the run stopped where it was: {said[0]}", remedy=f"{said[1]}\nThen: {again}.")


@contextmanager
def refusals_fail_the_step(folder: Path | None) -> Iterator[None]:
    """What the system refuses meanwhile is a StepFailed, so that the step goes back.

    Also what may be a bug: a step that is left in the middle is worse than a message without a traceback. But what had
    ended the run before, as a second Ctrl-C does, still ends it: only the cleanup after it was refused.
    """
    try:
        yield
    except OSError as error:
        if (ended := _ended_before(error)) is not None:
            raise ended from error
        unexpected = f"this machine's system refused what the step needs: {error}"
        said = _said(error, folder) or (unexpected, _UNEXPECTED.format(places=_places(folder)))
        raise StepFailed(said[0], remedy=said[1]) from error


def _ended_before(error: OSError) -> BaseException | None:
    """What ended the run already when this came; None for nothing."""
    before = error.__context__
    while before is not None and not isinstance(before, _END_THE_RUN):
        before = before.__context__
    return before


def _said(error: OSError, folder: Path | None) -> tuple[str, str] | None:
    """The message and the remedy."""
    number, name = error.errno, error.filename
    if number not in _REMEDIES or isinstance(error, ConnectionError | TimeoutError):
        return None
    if name is None and number not in _WITHOUT_FILE:
        return None
    if name is not None and number == errno.ENOENT:
        return None  # a module that needs a file which may be missing tells it itself: this is a bug
    path = os.fsdecode(name) if isinstance(name, str | bytes) else str(name)
    places = path if name is not None else _places(folder)
    what = path if name is not None else "a file of this command"
    return f"{what} can't be used: {error.strerror}", _REMEDIES[number].format(places=places, path=path)


def _places(folder: Path | None) -> str:
    """Where a command has its files."""
    return f"{folder or '.'} ${{TMPDIR:-/tmp}}"
