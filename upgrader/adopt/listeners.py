"""Sockets that listen on a controller, as the kernel lists them. Pure, except for the one that reads."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["Listeners", "parse_listeners", "read_listeners"]

_LISTEN = "0A"


@dataclass(frozen=True)
class Listeners:
    """Address and port of every listening TCP socket, in the host's network."""

    sockets: tuple[tuple[str, int], ...]

    def at(self, address: str, port: int) -> bool:
        """Whether a socket has exactly that address: it gets the connections, even if another one listens on all
        addresses.
        """
        return (str(ipaddress.ip_address(address)), port) in self.sockets

    def on_all(self, port: int) -> int:
        """How many sockets listen on all addresses."""
        return sum(ipaddress.ip_address(address).is_unspecified for address, at in self.sockets if at == port)


def read_listeners(hosts: Hosts, host: Host) -> Listeners:
    """Raises HostError."""
    return parse_listeners(hosts.run(host, ["sh", "-c", "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true"]).stdout)


def parse_listeners(table: str) -> Listeners:
    """/proc/net/tcp and tcp6: addresses in hexadecimal, each group of four bytes in reverse."""
    found = []
    for line in table.splitlines():
        columns = line.split()
        if len(columns) > 3 and columns[3] == _LISTEN:
            address, _, port = columns[1].partition(":")
            groups = [bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8)]
            found.append((str(ipaddress.ip_address(b"".join(groups))), int(port, 16)))
    return Listeners(tuple(found))
