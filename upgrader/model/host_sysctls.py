"""Sysctls of controllers: where they are read, and where an adoption keeps what it has set, and what it was before."""

from __future__ import annotations

__all__ = ["ORIGINALS", "SYSCTLS", "UNPRIVILEGED_PORTS", "live_file"]

SYSCTLS = "/etc/sysctl.d/90-upgrader.conf"
"""What is set, also at a boot."""
ORIGINALS = "/etc/kubernetes/upgrader"
"""Has a file by the name of each sysctl with its value before: an undo of the adoption sets it to that."""
UNPRIVILEGED_PORTS = "net.ipv4.ip_unprivileged_port_start"
"""The first port on which a process without capabilities may listen; also for IPv6, despite its name."""


def live_file(sysctl: str) -> str:
    """Where the kernel has its present value."""
    return f"/proc/sys/{sysctl.replace('.', '/')}"
