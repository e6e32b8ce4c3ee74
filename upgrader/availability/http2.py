"""HTTP/2, as much of it as a client of the API meets (RFC 9113): many exchanges at a time over one connection.

Frames are taken apart here, and only their compressed header fields are left to a library (hpack). h2, the library
for the whole protocol, regards a connection as closed from the moment at which GOAWAY comes, and refuses the rest of
the answers that are still on their way (python-hyper/h2#1181). Here GOAWAY is the very thing to be measured:
kube-apiserver sends it to move its clients away in good order.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping

import hpack

from upgrader.availability.endpoint import Endpoint
from upgrader.availability.http import BadAnswer, Closed, Request, Unprocessed, fields
from upgrader.availability.stream import Stream

__all__ = ["Http2Connection"]

_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED, _PRIORITY = 0x4, 0x8, 0x20
_ENABLE_PUSH, _MAX_STREAMS, _INITIAL_WINDOW, _HEADER_TABLE = 2, 3, 4, 1
_NO_ERROR, _REFUSED_STREAM = 0, 7
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MAX_FRAME = 16384
_WINDOW = 2**24
"""How many bytes the server may send ahead, on a stream and on the connection: far more than any answer here has."""


class _Kind:
    """Types of frames."""

    DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, *range(3, 10)


class _Exchange:
    """One request and its answer."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._parts: deque[bytes] = deque()
        self._complete = False
        self._error: Exception | None = None
        self._changed: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait for the status."""
        while not self.status and self._error is None and not self._complete:
            await self._change()
        if not self.status:
            raise self._error or BadAnswer("the answer has no status")

    async def chunk(self) -> bytes:
        """The next part of the body, b"" at its end."""
        while not self._parts:
            if self._error is not None:
                # An answer has begun: it is no longer a request that nobody answered.
                raise BadAnswer(f"{self._error or 'closed'} in the middle of the answer")
            if self._complete:
                return b""
            await self._change()
        return self._parts.popleft()

    def on_fields(self, found: Mapping[str, str]) -> None:
        """Take the head; what comes after it are announcements (1xx) before, or trailers."""
        status = int(found.get(":status", "0"))
        if status >= 200:
            self.status, self.headers = status, found
        self._wake()

    def on_data(self, data: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(data)
        self._wake()

    def on_end(self, error: Exception | None = None) -> None:
        """There is no more, because it is complete or because of an error."""
        self._complete, self._error = error is None, error
        self._wake()

    async def _change(self) -> None:
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


class Http2Connection:
    """One connection. `usable` until the server moves its clients away, or has as many exchanges as it allows."""

    def __init__(self, stream: Stream, endpoint: Endpoint) -> None:
        self._stream = stream
        self._endpoint = endpoint
        self._decoder = hpack.Decoder()
        self._encoded: dict[tuple[str, str, int], bytes] = {}
        self._exchanges: dict[int, _Exchange] = {}
        self._next = 1
        self._leaving = False
        self._max_exchanges = 100  # until the server says how many: what it should allow at least
        self._send_window, self._initial_window = 65535, 65535
        self._consumed = 0
        self._writing = asyncio.Lock()
        self._fields = b""
        self._ends = False
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Say hello. Raises OSError."""
        settings = struct.pack(">HIHIHI", _ENABLE_PUSH, 0, _INITIAL_WINDOW, _WINDOW, _HEADER_TABLE, 4096)
        hello = _PREFACE + _frame(_Kind.SETTINGS, 0, 0, settings)
        await self._stream.send(hello + _frame(_Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - 65535)))
        self._reader = asyncio.create_task(self._read())

    @property
    def usable(self) -> bool:
        """Whether a request may be sent on it."""
        return (
            not self._leaving
            and self._reader is not None
            and not self._reader.done()
            and len(self._exchanges) < self._max_exchanges
        )

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._exchanges

    def close(self) -> None:
        """End it, with all that goes on in it."""
        if self._reader is not None:
            self._reader.cancel()
        self._end(Closed())
        self._stream.close()

    async def begin(self, request: Request) -> _Exchange:
        """Send a request and wait for the head of its answer. Raises Closed, Unprocessed, BadAnswer or OSError."""
        if not self.usable:
            raise Unprocessed("not sent: the server is leaving this connection")
        identity, exchange = self._next, _Exchange()
        self._next += 2
        self._exchanges[identity] = exchange
        try:
            async with self._writing:
                await self._stream.send(self._request(identity, request))
            await exchange.head()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error
        except asyncio.CancelledError:
            self._exchanges.pop(identity, None)  # what still comes for it is passed over
            raise
        return exchange

    def _request(self, identity: int, request: Request) -> bytes:
        body = request.body or b""
        if len(body) > min(self._send_window, self._initial_window, _MAX_FRAME):
            raise Unprocessed("not sent: the server takes no more on this connection")
        self._send_window -= len(body)
        key = (request.method, request.path, len(body))
        if key not in self._encoded:
            self._encoded[key] = self._encode(request, len(body))
        flags = _END_HEADERS if body else _END_HEADERS | _END_STREAM
        head = _frame(_Kind.HEADERS, flags, identity, self._encoded[key])
        return head + _frame(_Kind.DATA, _END_STREAM, identity, body) if body else head

    def _encode(self, request: Request, length: int) -> bytes:
        """The request's fields, without any reference to earlier ones: so the bytes can be sent again and again."""
        found = [
            (":method", request.method),
            (":scheme", "https"),
            (":path", self._endpoint.path + request.path),
            (":authority", self._endpoint.authority),
            *fields(self._endpoint, request).items(),
        ]
        if length:
            found.append(("content-length", str(length)))
        return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*item) for item in found])

    async def _read(self) -> None:
        buffer = bytearray()
        try:
            while data := await self._stream.receive():
                buffer += data
                answer = bytearray()
                while len(buffer) >= 9 and len(buffer) >= 9 + (size := int.from_bytes(buffer[:3], "big")):
                    kind, flags, identity = buffer[3], buffer[4], int.from_bytes(buffer[5:9], "big") & 0x7FFFFFFF
                    payload = bytes(buffer[9 : 9 + size])
                    del buffer[: 9 + size]
                    answer += self._take(kind, flags, identity, payload)
                if answer:
                    async with self._writing:
                        await self._stream.send(bytes(answer))
                if self._leaving and self.idle:
                    break
            self._end(Closed())
        except OSError as error:
            self._end(Closed() if isinstance(error, BrokenPipeError | ConnectionResetError) else error)
        except (BadAnswer, hpack.HPACKError, struct.error, IndexError, ValueError) as error:
            self._end(BadAnswer(f"what came is no HTTP/2: {error}"))
        self._stream.close()

    def _take(self, kind: int, flags: int, identity: int, payload: bytes) -> bytes:
        """Take one frame; returns what is to be answered to it."""
        match kind:
            case _Kind.DATA:
                return self._on_data(flags, identity, payload)
            case _Kind.HEADERS | _Kind.CONTINUATION:
                self._on_headers(kind, flags, identity, payload)
            case _Kind.RST_STREAM:
                (code,) = struct.unpack(">I", payload)
                self._finish(identity, _reset(code))
            case _Kind.SETTINGS if not flags & _ACK:
                for offset in range(0, len(payload), 6):
                    self._on_setting(*struct.unpack_from(">HI", payload, offset))
                return _frame(_Kind.SETTINGS, _ACK, 0, b"")
            case _Kind.PUSH_PROMISE:
                raise BadAnswer("a push that nobody allowed")
            case _Kind.PING if not flags & _ACK:
                return _frame(_Kind.PING, _ACK, 0, payload)
            case _Kind.GOAWAY:
                self._on_goaway(*struct.unpack_from(">II", payload))
            case _Kind.WINDOW_UPDATE if identity == 0:
                self._send_window += struct.unpack(">I", payload)[0]
        return b""

    def _on_data(self, flags: int, identity: int, payload: bytes) -> bytes:
        data = payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
        exchange = self._exchanges.get(identity)
        if exchange is not None and data:
            exchange.on_data(data)
        if flags & _END_STREAM:
            self._finish(identity)
        self._consumed += len(payload)
        answer = b""
        if payload and not flags & _END_STREAM:  # long answers (watches) have a window of their own
            answer = _frame(_Kind.WINDOW_UPDATE, 0, identity, struct.pack(">I", len(payload)))
        if self._consumed >= _WINDOW // 4:
            answer += _frame(_Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", self._consumed))
            self._consumed = 0
        return answer

    def _on_headers(self, kind: int, flags: int, identity: int, payload: bytes) -> None:
        if kind == _Kind.HEADERS:
            padding = payload[0] if flags & _PADDED else 0
            start = (1 if flags & _PADDED else 0) + (5 if flags & _PRIORITY else 0)
            self._fields, self._ends = payload[start : len(payload) - padding], bool(flags & _END_STREAM)
        else:
            self._fields += payload
        if not flags & _END_HEADERS:
            return
        found = {str(name): str(value) for name, value in self._decoder.decode(self._fields)}
        if (exchange := self._exchanges.get(identity)) is not None:
            exchange.on_fields(found)
        if self._ends:
            self._finish(identity)

    def _on_setting(self, name: int, value: int) -> None:
        if name == _MAX_STREAMS:
            self._max_exchanges = value
        elif name == _INITIAL_WINDOW:
            self._initial_window = value

    def _on_goaway(self, last: int, code: int) -> None:
        """The server takes no new requests here; those up to `last` it still answers."""
        self._leaving = True
        why = "the server is leaving" if code == _NO_ERROR else f"the server gave up the connection (error {code})"
        for identity in [identity for identity in self._exchanges if identity > (last & 0x7FFFFFFF)]:
            self._finish(identity, Unprocessed(f"not processed: {why}"))

    def _finish(self, identity: int, error: Exception | None = None) -> None:
        if (exchange := self._exchanges.pop(identity, None)) is not None:
            exchange.on_end(error)

    def _end(self, error: Exception) -> None:
        self._leaving = True
        for identity in list(self._exchanges):
            self._finish(identity, error)


def _reset(code: int) -> Exception:
    if code == _REFUSED_STREAM:
        return Unprocessed("not processed: the server refused the stream")
    return BadAnswer(f"the server reset the stream (error {code})")


def _frame(kind: int, flags: int, identity: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, identity) + payload
