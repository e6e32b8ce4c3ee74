"""Closes the connections that a stopping etcd member waits for: those of clients whose streams never end.

etcd first stops listening, and asks its clients to disconnect. kube-apiserver's watches stay, so etcd closes them after
5 s and two election timeouts: 7 s, during which new requests already wait for the next etcd. This closes them sooner.
etcd is not killed: it shuts down by itself. If the kernel can't close another program's connections
(CONFIG_INET_DIAG_DESTROY), etcd takes its 7 s.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import NamedTuple

__all__ = ["Streams"]

_GRACE_SECONDS = 1.0
"""Time for requests that etcd already had when it stopped listening."""
_TABLES = ((socket.AF_INET, "/proc/net/tcp"), (socket.AF_INET6, "/proc/net/tcp6"))
_ESTABLISHED, _LISTENS = 1, 10
_SOCK_DIAG, _DESTROY, _REQUEST_AND_ACK = 4, 21, 5
_ANSWER_SECONDS = 2.0


class _Socket(NamedTuple):
    """A TCP socket of this host. Addresses in network format."""

    family: int
    address: bytes
    port: int
    peer: bytes
    peer_port: int
    state: int


class Streams:
    """Connections to one port of this host; none if it is 0."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._left_since = 0.0

    def end_abandoned(self) -> None:
        """Close those to an address on which nothing has listened for a second; to be called repeatedly."""
        left, now = _abandoned(self._port), time.monotonic()
        if not left:
            self._left_since = 0.0
        elif not self._left_since:
            self._left_since = now
        elif now - self._left_since >= _GRACE_SECONDS:
            for each in left:
                with contextlib.suppress(OSError):  # it has gone by itself, or this kernel can't
                    _close(each)


def _abandoned(port: int) -> list[_Socket]:
    found = [each for each in _sockets() if each.port == port]
    served = {(each.family, each.address) for each in found if each.state == _LISTENS}
    return [
        each
        for each in found
        if each.state == _ESTABLISHED and not served & {(each.family, each.address), (each.family, _any(each))}
    ]


def _any(each: _Socket) -> bytes:
    return bytes(len(each.address))


def _sockets() -> list[_Socket]:
    found = []
    for family, table in _TABLES:
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                local, remote, state = line.split()[1:4]
                found.append(_Socket(family, *_place(local), *_place(remote), int(state, 16)))
    return found


def _place(text: str) -> tuple[bytes, int]:
    """`0100007F:094B`: words in this machine's byte order, each as read from the network."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return struct.pack(f"={len(words)}I", *words), int(port, 16)


def _close(each: _Socket) -> None:
    """As `ss --kill` does: linux/inet_diag.h, inet_diag_req_v2. Raises OSError."""
    ends = struct.pack("!HH", each.port, each.peer_port) + each.address.ljust(16, b"\0") + each.peer.ljust(16, b"\0")
    any_interface_and_cookie = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    wanted = struct.pack("=BBBxI", each.family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends + any_interface_and_cookie
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_SECONDS)
        kernel.send(struct.pack("=IHHII", 16 + len(wanted), _DESTROY, _REQUEST_AND_ACK, 1, 0) + wanted)
        (answer,) = struct.unpack_from("=i", kernel.recv(4096), 16)
    if answer:
        raise OSError(-answer, "the kernel did not close this connection")
