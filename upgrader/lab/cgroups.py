"""A control group for each node, so that no two nodes share one /kubepods.

Membership is also the kernel's exact record of a node's processes: every process that the lab started for the node
is in its control group, and no other.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from upgrader.errors import LabError

__all__ = ["create", "hierarchies", "join_script", "kill", "remove"]

_ROOT = Path("/sys/fs/cgroup")


def hierarchies() -> list[Path]:
    """The mounted hierarchies: one for cgroup v2; for v1 one per controller, and `unified` if it exists."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return sorted(path for path in _ROOT.iterdir() if path.is_dir() and not path.is_symlink())


def create(name: str) -> None:
    """Create the node's group in every hierarchy."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # cgroup v1: a new cpuset has no CPUs, and accepts no process until it has some.
            if (group / setting).exists() and hierarchy != _ROOT and not (group / setting).read_text().strip():
                (group / setting).write_text((hierarchy / setting).read_text())


def join_script(name: str) -> str:
    """Shell lines that move the shell itself, and thus all its children, into the node's group."""
    return "\n".join(f"echo $$ > {hierarchy / name}/cgroup.procs" for hierarchy in hierarchies())


def kill(name: str, deadline_seconds: float = 20) -> None:
    """Kill every process in the node's group, and wait until the last one has ended."""
    until = time.monotonic() + deadline_seconds
    while pids := _members(name):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended before the signal
        if time.monotonic() > until:
            raise LabError(f"processes {sorted(pids)} of {name} do not end {deadline_seconds:.0f} s after SIGKILL")
        time.sleep(0.02)


def remove(name: str, deadline_seconds: float = 10) -> None:
    """Remove the node's groups, children first. Otherwise they would delay static pods after the next boot."""
    until = time.monotonic() + deadline_seconds
    for hierarchy in hierarchies():
        group = hierarchy / name
        while group.exists():
            try:
                for folder, _, _ in os.walk(group, topdown=False):
                    os.rmdir(folder)
            except FileNotFoundError:
                continue  # the kernel or the node's own systemd was faster
            except OSError as error:
                if time.monotonic() > until:
                    raise LabError(f"control group {group} can't be removed: {error}") from error
                time.sleep(0.02)


def _members(name: str) -> set[int]:
    pids: set[int] = set()
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / name):
            try:
                pids.update(int(line) for line in (Path(folder) / "cgroup.procs").read_text().split())
            except (FileNotFoundError, OSError):
                continue  # the group was removed meanwhile
    return pids - {0}
