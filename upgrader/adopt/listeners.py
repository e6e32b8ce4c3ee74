"""Sockets that listen on a controller."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from upgrader.model.cluster import Host
from upgrader.onhost.node.listening_sockets import TABLES, is_any, parse
from upgrader.ports import Hosts

__all__ = ["Listeners", "read_listeners"]


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
        return sum(is_any(address) for address, at in self.sockets if at == port)


def read_listeners(hosts: Hosts, host: Host) -> Listeners:
    """Raises HostError."""
    command = f"cat {' '.join(TABLES)} 2>/dev/null || true"
    return Listeners(tuple(parse(hosts.run(host, ["sh", "-c", command]).stdout)))
