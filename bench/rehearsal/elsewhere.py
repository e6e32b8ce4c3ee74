"""What has a machine of its own in production, and shares production's processors in a lab: the rest of them.

The operator's machine and a rehearsal host take no processor time from a controller. In a lab, each node is a control
group beside the others, of the same weight, and so is each process that is in none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from upgrader.lab.cgroups import hierarchies

__all__ = ["own_processes", "whole_node"]

_IDLE, _PROCESSES = "cpu.idle", "cgroup.procs"
_OWN = Path("/proc/self/cgroup")


@contextmanager
def whole_node(group: str) -> Iterator[None]:
    """Meanwhile, a node's control group is idle. Raises OSError where the kernel (before 5.15) has no such groups."""
    file = _hierarchy(group) / group / _IDLE
    before = file.read_text()
    file.write_text("1")
    try:
        yield
    finally:
        file.write_text(before)


@contextmanager
def own_processes() -> Iterator[None]:
    """Meanwhile, this process is in an idle control group, with all that it starts. Raises OSError as `whole_node`."""
    name = f"upgrader-bench-{os.getpid()}"
    for each in hierarchies():
        (each / name).mkdir()
        if not (each / name / _IDLE).exists():
            (each / name).rmdir()
    hierarchy = _hierarchy(name)
    group, before = hierarchy / name, hierarchy / _own_path(hierarchy).lstrip("/")
    try:
        (group / _IDLE).write_text("1")
        (group / _PROCESSES).write_text(str(os.getpid()))
        yield
    finally:
        # Some outlive what started them, such as a connection that SSH keeps for the next command.
        while there := (group / _PROCESSES).read_text().split():
            for pid in there:
                with suppress(ProcessLookupError):
                    (before / _PROCESSES).write_text(pid)
        group.rmdir()


def _hierarchy(group: str) -> Path:
    """The one that has this group's share of the processors."""
    for each in hierarchies():
        if (each / group / _IDLE).exists():
            return each
    raise FileNotFoundError(f"no control group {group} can be idle ({_IDLE}): Linux 5.15 is needed")


def _own_path(hierarchy: Path) -> str:
    """This process's group in a hierarchy."""
    for line in _OWN.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == hierarchy.name or (not controllers and (hierarchy / "cgroup.controllers").exists()):
            return path
    return "/"
