"""Limits the number of open connections and the memory of each: any client that reaches a port can open many.

asyncio gives a TLS connection 256 KiB before its first byte has come, and aiohttp takes a head of 1 MB, and the next
requests before the last one is answered. So a few hundred connections that said nothing took all memory of guard's pod,
and its end is the end of all that it answers for.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from aiohttp import web

__all__ = ["LimitedSite", "OpenConnections"]

_MOST = 512
"""An API server has one for each request that it waits for: several hundred pods may be deleted at once."""
_RECORD_BYTES = 16 * 1024
"""What TLS sends at most at a time."""
_HANDSHAKE_SECONDS = 10
"""As long as API servers wait for a webhook by default."""
_LONGEST_LINE, _MOST_HEADERS = 2048, 20
"""Of a request's head. API servers send some ten headers; the longest is a token, where they are told to send one."""


class OpenConnections:
    """Those of a server. One too many costs the address that has most of them its newest one: who opens many hurts
    himself first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: list[tuple[str, asyncio.Transport]] = []

    def add(self, transport: asyncio.Transport) -> None:
        """One that has just been opened; it may be closed at once."""
        peer = transport.get_extra_info("peername") or ("",)
        self._open = [each for each in self._open if not each[1].is_closing()]
        self._open.append((str(peer[0]), transport))
        if len(self._open) > self._most:
            [(address, _)] = Counter(address for address, _ in self._open).most_common(1)
            next(each for where, each in reversed(self._open) if where == address).abort()


class _Arrival(asyncio.Protocol):
    """What a connection begins as: it is counted, and handed on to what `make` makes."""

    def __init__(self, connections: OpenConnections, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._connections, self._make = connections, make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.add(cast(asyncio.Transport, transport))
        if not cast(asyncio.Transport, transport).is_closing():
            protocol = self._make()
            cast(asyncio.Transport, transport).set_protocol(protocol)
            protocol.connection_made(transport)


class _Tls(sslproto.SSLProtocol):
    """As asyncio's own, with less memory."""

    max_size = _RECORD_BYTES


class _OneByOne(web.RequestHandler):
    """Reads a request once the last one is answered; who sends more before that isn't waited for."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self._messages) > 1 and self.transport is not None:
            self.transport.abort()


class LimitedSite(web.BaseSite):
    """Listens at a port of all addresses (host None), or of one. The runner's own options for requests don't count."""

    def __init__(
        self,
        runner: web.AppRunner,
        host: str | None,
        port: int,
        context: ssl.SSLContext | None = None,
        *,
        lingering: float,
        most: int = _MOST,
    ) -> None:
        """`lingering`: for how many seconds what is left of a request is read that was answered before its end. `most`:
        connections.
        """
        super().__init__(runner)
        self._where, self._context, self._lingering = (host, port), context, lingering
        self._connections = OpenConnections(most)

    @property
    def name(self) -> str:
        """Where it listens."""
        return f"{self._where[0] or '*'}:{self._where[1]}"

    async def start(self) -> None:
        """Raises OSError."""
        await super().start()
        make = partial(_Arrival, self._connections, partial(self._made, asyncio.get_running_loop()))
        host, port = self._where
        self._server = await asyncio.get_running_loop().create_server(make, host, port, backlog=self._backlog)

    def _made(self, loop: asyncio.AbstractEventLoop) -> asyncio.BaseProtocol:
        assert self._runner.server is not None
        # Bodies are as they come: a few bytes that are said to be encoded don't become many.
        handler = _OneByOne(
            self._runner.server,
            loop=loop,
            access_log=cast(Any, None),
            auto_decompress=False,
            lingering_time=self._lingering,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_HEADERS,
        )
        if self._context is None:
            return handler
        waiter, seconds = cast(Any, None), _HANDSHAKE_SECONDS
        return _Tls(loop, handler, self._context, waiter, server_side=True, ssl_handshake_timeout=seconds)
