"""A tunnel through an HTTP proxy (RFC 9110, 9.3.6)."""

from __future__ import annotations

import asyncio
import socket

from upgrader.config.proxy import Proxy

__all__ = ["open_tunnel"]

_MAX_HEAD = 16384


async def open_tunnel(connected: socket.socket, proxy: Proxy, authority: str) -> None:
    """Ask the proxy for a tunnel to `authority` (HOST:PORT). Raises OSError with the proxy's answer."""
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    await loop.sock_sendall(connected, "\r\n".join([*lines, "", ""]).encode())
    head = b""
    # One byte at a time: what follows belongs to the tunnel. It is one small answer for each connection.
    while not head.endswith(b"\r\n\r\n"):
        part = await loop.sock_recv(connected, 1)
        if not part or len(head) > _MAX_HEAD:
            raise OSError(f"the proxy {proxy.url} closed the connection without an answer")
        head += part
    status = head.split(b"\r\n")[0].decode(errors="replace")
    if not status.startswith(("HTTP/1.1 2", "HTTP/1.0 2")):
        raise OSError(f"the proxy {proxy.url} refused the connection: {status}")
