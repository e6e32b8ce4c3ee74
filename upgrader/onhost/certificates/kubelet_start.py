"""Whether this host's kubelet has read its kubeconfig since it changed, and its restart."""

from __future__ import annotations

import os
import subprocess
import time

from upgrader.onhost.common.kubelet_process import main_process
from upgrader.onhost.common.questions import Failed

__all__ = ["is_late", "restart"]

_SECONDS = 60.0
_UNIT = "kubelet"


def is_late(kubeconfig: str) -> bool:
    """Whether it started before its kubeconfig was written. Raises Failed if it doesn't run."""
    return _started() <= os.stat(kubeconfig).st_mtime


def restart() -> None:
    """Restart it; pods keep running. Raises Failed."""
    try:
        subprocess.run(
            ["systemctl", "restart", _UNIT], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(f"the kubelet can't be restarted: {error}") from error


def _started() -> float:
    """The start time of its process, by this host's clock."""
    number = main_process()
    if not number:
        raise Failed("the kubelet is not running as the systemd unit kubelet")
    try:
        with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
    except (OSError, ValueError, IndexError) as error:
        raise Failed(f"the start time of the kubelet is unknown: {error}") from error
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
