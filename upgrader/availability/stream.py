"""A TLS connection on asyncio's loop, without asyncio's own TLS layer.

That layer copies every byte through two protocols and costs three times what the rest of a small request does. Here
the loop only says when the socket is ready, and OpenSSL reads and writes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl

from upgrader.availability.endpoint import Endpoint

__all__ = ["Stream"]

_CHUNK = 65536


class Stream:
    """A connected, verified TLS stream. One reader and one writer at a time. Methods raise OSError."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Future[None] | None = None
        self._listening = False

    @classmethod
    async def open(cls, endpoint: Endpoint, tls: ssl.SSLContext) -> Stream:
        """Connect and verify who answers. Cancelling it leaves nothing open. Raises OSError (ssl.SSLError is one)."""
        plain = await _connected(endpoint.host, endpoint.port)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wrapped = tls.wrap_socket(plain, server_hostname=endpoint.server_name, do_handshake_on_connect=False)
        except BaseException:
            plain.close()
            raise
        stream = cls(wrapped)
        try:
            await stream._handshake()
        except BaseException:
            stream.close()
            raise
        return stream

    @property
    def protocol(self) -> str:
        """What was agreed on by ALPN; "" for nothing."""
        return self._socket.selected_alpn_protocol() or ""

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        while data:
            try:
                data = data[self._socket.send(data) :]
            except ssl.SSLWantWriteError:
                await self._ready(write=True)
            except ssl.SSLWantReadError:
                await self._ready(write=False)

    async def receive(self) -> bytes:
        """What has come, as soon as anything has; b"" at the end."""
        while True:
            try:
                return self._socket.recv(_CHUNK)
            except ssl.SSLWantReadError:
                await self._ready(write=False)
            except ssl.SSLWantWriteError:
                await self._ready(write=True)
            except ssl.SSLZeroReturnError:
                return b""

    @property
    def stale(self) -> bool:
        """Whether an idle stream has been closed by the other end (or says what nobody asked it)."""
        try:
            self._socket.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Let go of it; may be called again."""
        descriptor = self._socket.fileno()
        if descriptor >= 0:
            # Before its number goes to another connection.
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
        self._socket.close()

    async def _handshake(self) -> None:
        while True:
            try:
                self._socket.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._ready(write=False)
            except ssl.SSLWantWriteError:
                await self._ready(write=True)

    async def _ready(self, *, write: bool) -> None:
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise OSError("the connection was closed meanwhile")
        ready = self._loop.create_future()
        if write:
            self._loop.add_writer(descriptor, _done, ready)
            try:
                await ready
            finally:
                if self._socket.fileno() == descriptor:  # otherwise it was closed meanwhile
                    self._loop.remove_writer(descriptor)
            return
        self._reading = ready
        if not self._listening:
            # It stays so from one answer to the next: asking the kernel anew for each would cost more than reading.
            self._loop.add_reader(descriptor, self._readable)
            self._listening = True
        try:
            await ready
        finally:
            self._reading = None

    def _readable(self) -> None:
        if self._reading is None:  # nobody reads now; the loop would call again at once, and again
            self._loop.remove_reader(self._socket.fileno())
            self._listening = False
        else:
            _done(self._reading)


def _done(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _connected(host: str, port: int) -> socket.socket:
    """Connect to the first of a name's addresses that answers. Raises the last one's OSError."""
    loop, last = asyncio.get_running_loop(), OSError(f"{host} has no address")
    for family, address in await _addresses(host, port):
        plain = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await loop.sock_connect(plain, address)
            return plain
        except OSError as error:
            plain.close()
            last = error
        except BaseException:
            plain.close()
            raise
    raise last


async def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    with contextlib.suppress(ValueError):  # not an address, so a name
        version = ipaddress.ip_address(host).version
        return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, (str(address[0]), int(address[1]))) for family, _, _, _, address in found]
