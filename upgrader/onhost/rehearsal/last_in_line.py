"""Has this unit run only where the host's processors have nothing else to do.

A `nice` value counts within a control group alone: among groups, their weights do, and a new thread of a group may run
beside, or before, one of production that wakes up. A group that is idle (`cpu.idle`) gives way to it at once.
"""

from __future__ import annotations

import contextlib
import os

__all__ = ["last_in_line"]

_CGROUPS, _OWN = "/sys/fs/cgroup", "/proc/self/cgroup"


def last_in_line(unit: str) -> None:
    """Make the control group of this `unit` idle. Changes nothing in a group that has another name.

    Kernels before 5.15 have no idle groups. There, a thread gives way to those of other groups: this one does, and all
    that it starts. In newer ones, that counts within a thread's own group alone.
    """
    for folder in _folders():
        if os.path.basename(folder) != unit or not os.path.isdir(folder):
            continue
        try:
            # Not created, if it is missing: the file system of control groups would refuse that with another error.
            with open(os.open(os.path.join(folder, "cpu.idle"), os.O_WRONLY), "w", encoding="ascii") as file:
                file.write("1")
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError:
            pass  # its weight is the lowest all the same


def _folders() -> list[str]:
    """Of this process's control group, where the controller `cpu` may be: in version 2, or in version 1."""
    found = []
    with contextlib.suppress(OSError), open(_OWN, encoding="utf-8", errors="replace") as file:
        for line in file.read().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                found.append(_CGROUPS + path)
            elif "cpu" in controllers.split(","):
                found.append(os.path.join(_CGROUPS, controllers) + path)
    return found
