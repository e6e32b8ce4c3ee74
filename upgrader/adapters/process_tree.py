"""Ends a process with all its descendants, also those in sessions of their own."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["end_tree"]

_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.05


def end_tree(root: int) -> None:
    """SIGTERM to the process, which may end its descendants itself; SIGKILL to all that live three seconds later.

    Returns once none lives, or at most three seconds after the SIGKILL: a process may be stuck in the kernel.

    Without `/proc`, descendants in process groups of their own are left to the SIGTERM.
    """
    tree = {root: _started(root), **_descendants(root)}
    _signal(root, signal.SIGTERM)
    for number in (None, signal.SIGKILL):
        for pid, since in tree.items():
            if number and _lives(pid, since):
                _signal(pid, number)
        for _ in range(round(_GRACE_SECONDS / _POLL_SECONDS)):
            tree |= _descendants(root)
            if not any(_lives(pid, since) for pid, since in tree.items()):
                return
            time.sleep(_POLL_SECONDS)


def _descendants(root: int) -> dict[int, str]:
    """Each descendant and when it started, which no later process of the same number shares."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parents[int(entry.name)] = int(_fields(int(entry.name))[1])
    found: dict[int, str] = {}
    generation = {root}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation and pid not in found}
        found |= {pid: _started(pid) for pid in generation}
    return found


def _lives(pid: int, since: str) -> bool:
    try:
        fields = _fields(pid)
    except OSError:
        return False
    return fields[0] != "Z" and fields[19] == since


def _started(pid: int) -> str:
    try:
        return _fields(pid)[19]
    except OSError:
        return ""


def _fields(pid: int) -> list[str]:
    """Of `/proc/PID/stat`, what follows the name: state, parent, …, and at 19 the start."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
