"""A TLS connection on asyncio's loop, without asyncio's own TLS layer.

That layer copies every byte through two protocols, and costs three times as much as the rest of a small request. Here
the loop only reports when the socket is ready, and OpenSSL reads and writes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import select
import socket
import ssl
from collections.abc import Callable

from upgrader.gates.availability.api_endpoint import ApiEndpoint
from upgrader.gates.availability.proxy_tunnel import open_tunnel

__all__ = ["TlsStream"]

_CHUNK = 65536


class TlsStream:
    """A connected, verified TLS stream. One reader and one writer at a time. Methods raise OSError."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Future[None] | None = None
        self._arrived: bytes | None = None
        """Data that has been read, but not received yet."""
        self._listening = False
        self._on_data: Callable[[], None] | None = None
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)

    @classmethod
    async def open(cls, endpoint: ApiEndpoint, tls: ssl.SSLContext) -> TlsStream:
        """Connect and verify the server. Cancelling it leaves nothing open. Raises OSError (ssl.SSLError is one)."""
        proxy = endpoint.proxy
        plain = await _connected(*((proxy.host, proxy.port) if proxy else (endpoint.host, endpoint.port)))
        try:
            if proxy:
                await open_tunnel(plain, proxy, endpoint.authority)
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
        """The protocol that ALPN selected; "" for none."""
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

    async def receive(self, *, soon: bool) -> bytes:
        """The next data, as soon as there is any; b"" at the end.

        `soon`: data is probably there already. Otherwise wait for the loop first: an unsuccessful read costs more.
        """
        if self._arrived is None and (soon or self._socket.pending()):
            self._arrived = self.take()
        if self._arrived is None:
            self._reading = self._loop.create_future()
            self._listen()
            try:
                await self._reading
            finally:
                self._reading = None
        data, self._arrived = self._arrived, None
        return data or b""

    def listen(self, on_data: Callable[[], None]) -> None:
        """Call `on_data` whenever there is data to `take`, until the stream is closed; instead of `receive`."""
        self._on_data = on_data
        self._listen()

    def take(self) -> bytes | None:
        """The next data; None when there is none yet, b"" at the end."""
        try:
            return self._socket.recv(_CHUNK)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):  # the latter only for a key update
            return None
        except ssl.SSLZeroReturnError:
            return b""

    @property
    def stale(self) -> bool:
        """Whether the server has closed an idle stream (or sent unexpected data)."""
        if self._arrived is None and not self._poll.poll(0) and not self._socket.pending():
            return False
        try:
            self._socket.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Close it; may be called again."""
        descriptor = self._socket.fileno()
        if descriptor >= 0:
            # Before another connection gets the same descriptor.
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
        """Wait until the handshake, or a write, can continue."""
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise OSError("the connection was closed in the meantime")
        ready = self._loop.create_future()
        (self._loop.add_writer if write else self._loop.add_reader)(descriptor, _done, ready)
        try:
            await ready
        finally:
            if self._socket.fileno() == descriptor:  # otherwise it was closed meanwhile
                (self._loop.remove_writer if write else self._loop.remove_reader)(descriptor)
                self._listening = self._listening and write
                if self._on_data is not None:
                    self._listen()

    def _listen(self) -> None:
        if not self._listening:
            # The registration stays from one answer to the next: a new one for each would cost more than the read.
            self._loop.add_reader(self._socket.fileno(), self._readable)
            self._listening = True

    def _readable(self) -> None:
        """Data has arrived. Read it at once: otherwise the loop would report it again until the reader runs."""
        reading = self._reading
        if reading is None and self._on_data is not None:
            self._on_data()
        elif reading is None or reading.done():  # no reader waits
            self._loop.remove_reader(self._socket.fileno())
            self._listening = False
        else:
            try:
                self._arrived = self.take()
            except OSError as error:
                reading.set_exception(error)
                return
            if self._arrived is not None:
                reading.set_result(None)


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
    with contextlib.suppress(ValueError):  # not an address, but a name
        version = ipaddress.ip_address(host).version
        return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, (str(address[0]), int(address[1]))) for family, _, _, _, address in found]
