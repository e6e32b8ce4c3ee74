"""Ports for servers that tests start as processes of their own."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

__all__ = ["free_port"]

_FIRST = 20_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(address: str = "127.0.0.1") -> int:
    """A port on which nothing listens, at one address or at all (`0.0.0.0`).

    It is below the kernel's ephemeral range: a port of that range could be another process's end of a connection by the
    time the server binds it. It is random, so that processes that ask at once don't get the same.
    """
    beyond = int(_RANGE.read_text().split()[0])
    while True:
        port = _FIRST + secrets.randbelow(beyond - _FIRST)
        try:
            with socket.create_server((address, port)):
                return port
        except OSError:
            continue
