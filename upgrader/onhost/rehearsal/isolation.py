"""Whether this process is where nothing can be reached but itself: in a network namespace with only a loopback."""

from __future__ import annotations

import fcntl
import socket
import struct

from upgrader.onhost.common.questions import Failed

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_LOOPBACK = "lo"
_REQUEST = "16sh14x"
"""`struct ifreq` of netdevice(7): a name, and flags."""


def require_isolation() -> None:
    """Switch the loopback on. Raises Failed where another interface is on, or where there is a route.

    A service manager in a container may ignore `PrivateNetwork=yes`: what it was asked for proves nothing. Some kernel
    modules have an interface in each network (`tunl0`), which is off.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        others = [name for _, name in socket.if_nameindex() if name != _LOOPBACK and _flags(link, name) & _UP]
        if others:
            raise Failed(
                "this host's service manager did not isolate the rehearsal's network: it could reach {}. Nothing was "
                "started".format(", ".join(others))
            )
        # The interface is the first word of a route of IPv4, below a heading, and the last one of IPv6's.
        routes = [words[0] for words in _table("route")[1:]] + [words[-1] for words in _table("ipv6_route")]
        if outside := sorted(set(routes) - {_LOOPBACK}):
            raise Failed("the rehearsal's network has routes by {}. Nothing was started".format(", ".join(outside)))
        fcntl.ioctl(link, _SET_FLAGS, struct.pack(_REQUEST, _LOOPBACK.encode(), _flags(link, _LOOPBACK) | _UP))


def _flags(link: socket.socket, name: str) -> int:
    answer = fcntl.ioctl(link, _GET_FLAGS, struct.pack(_REQUEST, name.encode(), 0))
    return int(struct.unpack(_REQUEST, answer)[1])


def _table(name: str) -> list[list[str]]:
    try:
        with open(f"/proc/self/net/{name}", encoding="ascii") as file:
            return [line.split() for line in file if line.strip()]
    except FileNotFoundError:
        return []  # a kernel without IPv6
