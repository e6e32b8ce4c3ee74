"""Kinds of clients: those that connect for every request, and those that keep their connections."""

from __future__ import annotations

import asyncio
from typing import Literal, Protocol

from upgrader.gates.availability.api_endpoint import ApiEndpoint
from upgrader.gates.availability.credentials import Credentials
from upgrader.gates.availability.http1 import Http1Connection
from upgrader.gates.availability.http2 import Http2Connection
from upgrader.gates.availability.http_exchange import (
    Attempt,
    BadAnswer,
    Closed,
    Connection,
    Request,
    Unprocessed,
    described,
    judged,
)
from upgrader.gates.availability.request_encoder import Encoder
from upgrader.gates.availability.tls_stream import TlsStream

__all__ = [
    "BROKEN",
    "PROTOCOLS",
    "Client",
    "FreshClient",
    "KeptClient",
    "Protocols",
    "SharedClient",
    "connect",
    "failed",
]

Protocols = Literal["HTTP/1.1", "HTTP/2"]
PROTOCOLS: tuple[Protocols, ...] = ("HTTP/1.1", "HTTP/2")
_IDLE = 10
"""Idle connections that a pool keeps, as many as urllib3 does."""
_CLOSED = (Closed, BrokenPipeError, ConnectionResetError)
BROKEN = (OSError, Closed, Unprocessed, BadAnswer)
"""What can end an exchange early; a timeout is an OSError."""


class Client(Protocol):
    """One kind of client. Requests are concurrent: none waits for another."""

    name: str

    @property
    def credentials(self) -> Credentials:
        """What it logs in with."""
        ...

    async def send(self, request: Request, deadline: float) -> Attempt:
        """Try once, until `deadline` in the loop's time; never raises for an error of a server or a network."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


async def connect(encoder: Encoder, protocol: Protocols) -> Http1Connection | Http2Connection:
    """Connect; falls back to HTTP/1.1 if the server doesn't negotiate HTTP/2, as clients do. Raises OSError."""
    endpoint = encoder.endpoint
    if protocol == "HTTP/1.1":
        return Http1Connection(await TlsStream.open(endpoint, endpoint.tls), encoder)
    stream = await TlsStream.open(endpoint, endpoint.tls_http2)
    if stream.protocol != "h2":
        return Http1Connection(stream, encoder)
    connection = Http2Connection(stream, encoder)
    try:
        await connection.start()
    except BaseException:
        connection.close()
        raise
    return connection


class FreshClient:
    """Connects for every request, as `kubectl`, `curl` and health checks do."""

    def __init__(self, endpoint: ApiEndpoint, protocol: Protocols) -> None:
        self.name = f"fresh {protocol}"
        self.credentials = endpoint.credentials
        self._encoder = Encoder(endpoint)
        self._protocol = protocol

    async def send(self, request: Request, deadline: float) -> Attempt:
        connection: Connection | None = None
        try:
            async with asyncio.timeout_at(deadline):
                connection = await connect(self._encoder, self._protocol)
                return await _exchange(connection, request)
        except BROKEN as error:
            return failed(error, connected=connection is not None, reused=False)
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Nothing is kept."""


class KeptClient:
    """Keeps HTTP/1.1 connections in a pool, and opens another when all are busy or closed by the server."""

    name = "kept HTTP/1.1"

    def __init__(self, endpoint: ApiEndpoint) -> None:
        self.credentials = endpoint.credentials
        self._encoder = Encoder(endpoint)
        self._tls = endpoint.tls
        self._idle: list[Http1Connection] = []

    async def send(self, request: Request, deadline: float) -> Attempt:
        connection = self._take()
        tls = self._tls
        reused, done = connection is not None, False
        try:
            async with asyncio.timeout_at(deadline):
                if connection is None:
                    endpoint = self._encoder.endpoint
                    connection = Http1Connection(await TlsStream.open(endpoint, tls), self._encoder)
                attempt = await _exchange(connection, request)
                done = connection.reusable
                return attempt
        except BROKEN as error:
            if reused and isinstance(error, _CLOSED):
                self.close()  # the others have the same server
            return failed(error, connected=connection is not None, reused=reused)
        finally:
            if done and connection is not None and len(self._idle) < _IDLE and tls is self._tls:
                self._idle.append(connection)
            elif connection is not None:
                connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> Http1Connection | None:
        """An idle connection that is still open, as far as a client can know."""
        if self._tls is not self.credentials.tls:
            # The others were opened with a client certificate that may have ended.
            self.close()
            self._tls = self.credentials.tls
        while self._idle:
            connection = self._idle.pop()
            if not connection.stale:
                return connection
            connection.close()
        return None


class SharedClient:
    """Sends all requests through one HTTP/2 connection, and opens another when the server sends GOAWAY."""

    name = "kept HTTP/2"

    def __init__(self, endpoint: ApiEndpoint) -> None:
        self.credentials = endpoint.credentials
        self._encoder = Encoder(endpoint)
        self._tls = endpoint.tls_http2
        self._current: Http2Connection | None = None
        self._leaving: list[Http2Connection] = []
        self._opening = asyncio.Lock()
        self._fallback: KeptClient | None = None

    async def send(self, request: Request, deadline: float) -> Attempt:
        if self._fallback is not None:
            return await self._fallback.send(request, deadline)
        reused = connection = None
        try:
            async with asyncio.timeout_at(deadline):
                reused, connection = self._current, await self._usable()
                if connection is not None:
                    return await _exchange(connection, request)
        except BROKEN as error:
            return failed(
                error, connected=connection is not None, reused=connection is not None and connection is reused
            )
        return await self.send(request, deadline)

    def close(self) -> None:
        for connection in (*self._leaving, self._current, self._fallback):
            if connection is not None:
                connection.close()

    async def _usable(self) -> Http2Connection | None:
        """A connection that accepts requests; None when the server doesn't support HTTP/2."""
        if (current := self._present()) is not None:
            return current
        async with self._opening:
            if self._fallback is not None:
                return None
            if (current := self._present()) is not None:
                return current
            self._close_idle()
            self._tls = self.credentials.tls_http2
            opened = await connect(self._encoder, "HTTP/2")
            if isinstance(opened, Http1Connection):
                opened.close()
                self._fallback = KeptClient(self._encoder.endpoint)
                return None
            self._current = opened
            return opened

    def _present(self) -> Http2Connection | None:
        usable = self._current is not None and self._current.usable and self._tls is self.credentials.tls_http2
        return self._current if usable else None

    def _close_idle(self) -> None:
        """Close connections without open exchanges; the others complete theirs."""
        old = [connection for connection in (*self._leaving, self._current) if connection is not None]
        self._current, self._leaving = None, [connection for connection in old if not connection.idle]
        for connection in old:
            if connection.idle:
                connection.close()


async def _exchange(connection: Connection, request: Request) -> Attempt:
    answer = await connection.begin(request)
    body = bytearray()
    while part := await answer.chunk():
        body += part
    return judged(request, answer, bytes(body))


def failed(error: Exception, *, connected: bool, reused: bool) -> Attempt:
    """An attempt that ended with an error. `reused`: the connection had been open before the request."""
    return Attempt(
        False,
        error=described(error, "waiting for the answer" if connected else "connecting"),
        unanswered=reused and isinstance(error, _CLOSED),
        unprocessed=isinstance(error, Unprocessed),
    )
