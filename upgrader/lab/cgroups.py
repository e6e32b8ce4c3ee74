"""A control group of its own for each node, so that two nodes never share one /kubepods.

Membership is also the kernel's own, exact record of which processes belong to a node: whatever is in a node's
control group was started by the lab, and nothing else is.
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
    """The mounted hierarchies: one on cgroup v2; with v1 one a controller, and `unified` where there is that."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return sorted(path for path in _ROOT.iterdir() if path.is_dir() and not path.is_symlink())


def create(name: str) -> None:
    """Make the node's group in every hierarchy."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # cgroup v1: a new cpuset has no CPUs and takes no process until it is given some.
            if (group / setting).exists() and hierarchy != _ROOT and not (group / setting).read_text().strip():
                (group / setting).write_text((hierarchy / setting).read_text())


def join_script(name: str) -> str:
    """Shell lines that move the shell itself, and so all that it starts, into the node's group."""
    return "\n".join(f"echo $$ > {hierarchy / name}/cgroup.procs" for hierarchy in hierarchies())


def kill(name: str, deadline_seconds: float = 20) -> None:
    """End every process in the node's group, and wait until the last one is gone."""
    until = time.monotonic() + deadline_seconds
    while pids := _members(name):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended between our look and our signal
        if time.monotonic() > until:
            raise LabError(f"processes {sorted(pids)} of {name} do not end {deadline_seconds:.0f} s after SIGKILL")
        time.sleep(0.02)


def remove(name: str, deadline_seconds: float = 10) -> None:
    """Remove the node's groups, children first. Left over, they would delay static pods after the next boot."""
    until = time.monotonic() + deadline_seconds
    for hierarchy in hierarchies():
        group = hierarchy / name
        while group.exists():
            try:
                for folder, _, _ in os.walk(group, topdown=False):
                    os.rmdir(folder)
            except FileNotFoundError:
                continue  # the kernel or the node's own systemd was quicker
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
                continue  # the group went away while we walked
    return pids - {0}
