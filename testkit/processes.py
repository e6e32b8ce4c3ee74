"""Child processes on this machine."""

from __future__ import annotations

from pathlib import Path

__all__ = ["children"]


def children(pid: int, program: str) -> list[int]:
    """The PIDs of a process's children that run that program."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if parent == pid and words[0].endswith(program.encode()):
            found.append(int(entry.name))
    return found
