"""TCP sockets that listen on this node, as the kernel lists them in /proc/net/tcp and tcp6.

Sockets that share a port (SO_REUSEPORT) are listed one by one: their number tells how many processes serve there.
"""

from __future__ import annotations

import ipaddress
import struct

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"


def parse(table: str) -> list[tuple[str, int]]:
    """(address, port) of each listening socket in such a table, or in several after one another. Raises ValueError."""
    lines = (line.split() for line in table.splitlines())
    return [_place(columns[1]) for columns in lines if len(columns) > 3 and columns[3] == _LISTEN]


def is_any(address: str) -> bool:
    """Whether it stands for all addresses: 0.0.0.0 or [::]."""
    return ipaddress.ip_address(address).is_unspecified


def sockets_at(address: str, port: int) -> int:
    """How many sockets of this network namespace take connections to an IP address and port, also by listening on all
    addresses. Raises OSError and ValueError.
    """
    wanted, found = str(ipaddress.ip_address(address)), 0
    for path in TABLES:
        try:
            with open(path, encoding="ascii") as table:
                places = parse(table.read())
        except FileNotFoundError:  # tcp6, on a node without IPv6
            continue
        found += sum(at == port and (here == wanted or is_any(here)) for here, at in places)
    return found


def _place(text: str) -> tuple[str, int]:
    """`0100007F:094B`: 32-bit words in this machine's byte order, each as the network sends it."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return str(ipaddress.ip_address(packed)), int(port, 16)
