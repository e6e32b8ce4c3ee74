"""A TLS connection on asyncio's loop, without asyncio's own TLS layer.

That layer copies every byte through two protocols and costs three times what the rest of a small request does. Here
the loop only says when the socket is ready, and OpenSSL reads and writes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import select
import socket
import ssl
from collections.abc import Callable

from upgrader.availability.api_endpoint import ApiEndpoint

__all__ = ["TlsStream"]

_CHUNK = 65536


class TlsStream:
    """A connected, verified TLS stream. One reader and one writer at a time. Methods raise OSError."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Future[None] | None = None
        self._come: bytes | None = None
        """What has been read, and nobody has received yet."""
        self._listening = False
        self._on_data: Callable[[], None] | None = None
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)

    @classmethod
    async def open(cls, endpoint: ApiEndpoint, tls: ssl.SSLContext) -> TlsStream:
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

    async def receive(self, *, soon: bool) -> bytes:
        """What has come, as soon as anything has; b"" at the end.

        `soon`: it may well be there already. Otherwise the loop is asked first: to read in vain costs more.
        """
        if self._come is None and (soon or self._socket.pending()):
            self._come = self.take()
        if self._come is None:
            self._reading = self._loop.create_future()
            self._listen()
            try:
                await self._reading
            finally:
                self._reading = None
        data, self._come = self._come, None
        return data or b""

    def listen(self, on_data: Callable[[], None]) -> None:
        """Call `on_data` whenever there is something to `take`, until the stream is closed; instead of `receive`."""
        self._on_data = on_data
        self._listen()

    def take(self) -> bytes | None:
        """What has come; None when that is nothing yet, b"" at the end."""
        try:
            return self._socket.recv(_CHUNK)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):  # the latter for no more than an answer to a new key
            return None
        except ssl.SSLZeroReturnError:
            return b""

    @property
    def stale(self) -> bool:
        """Whether an idle stream has been closed by the other end (or says what nobody asked it)."""
        if self._come is None and not self._poll.poll(0) and not self._socket.pending():
            return False
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
        """Wait until the handshake, or what is sent, can go on."""
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise OSError("the connection was closed meanwhile")
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
            # It stays so from one answer to the next: asking the kernel anew for each would cost more than reading.
            self._loop.add_reader(self._socket.fileno(), self._readable)
            self._listening = True

    def _readable(self) -> None:
        """Something has come. It is read here and now: the loop would tell of it again until the reader's turn."""
        reading = self._reading
        if reading is None and self._on_data is not None:
            self._on_data()
        elif reading is None or reading.done():  # nobody reads now
            self._loop.remove_reader(self._socket.fileno())
            self._listening = False
        else:
            try:
                self._come = self.take()
            except OSError as error:
                reading.set_exception(error)
                return
            if self._come is not None:
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
    with contextlib.suppress(ValueError):  # not an address, so a name
        version = ipaddress.ip_address(host).version
        return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, (str(address[0]), int(address[1]))) for family, _, _, _, address in found]
