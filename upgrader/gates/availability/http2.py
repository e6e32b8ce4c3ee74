"""HTTP/2, as much of it as a client of the API meets (RFC 9113): many exchanges at a time over one connection.

Frames are parsed here; only compressed header fields are left to a library (hpack). h2, the library for the whole
protocol, maps RECV_GOAWAY to CLOSED, and refuses the rest of the answers that are still to come (python-hyper/h2#1181).
But GOAWAY is exactly what is measured here: kube-apiserver sends it to move its clients in good order.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping

import hpack

from upgrader.gates.availability.http_exchange import BadAnswer, Closed, Request, Unprocessed
from upgrader.gates.availability.request_encoder import Encoder
from upgrader.gates.availability.tls_stream import TlsStream

__all__ = ["Http2Connection"]

_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED, _PRIORITY = 0x4, 0x8, 0x20
_ENABLE_PUSH, _MAX_STREAMS, _INITIAL_WINDOW, _HEADER_TABLE = 2, 3, 4, 1
_NO_ERROR, _REFUSED_STREAM = 0, 7
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MAX_FRAME = 16384
_WINDOW = 2**24
"""How many bytes the server may send ahead, per stream and per connection: far more than any answer here has."""
_CREDIT = _WINDOW // 4
"""The window is updated after this many bytes: an update for every part would cost a message each."""
_NO_TABLE = b"\x20"
"""The start of a block of header fields by which the server confirms a table of size 0."""
_STATUS_200 = 0x88
"""The encoding of ":status: 200" then; nothing else in such a block matters here."""
_GOOD: Mapping[str, str] = {":status": "200"}


class _Kind:
    """Types of frames."""

    DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, *range(3, 10)


class _Exchange:
    """One request and its answer."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.consumed = 0
        """Bytes of its body for which the window has not been updated yet."""
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
                # An answer has begun, so this is no unanswered request.
                raise BadAnswer(f"{str(self._error) or 'closed'} in the middle of the answer")
            if self._complete:
                return b""
            await self._change()
        return self._parts.popleft()

    def on_fields(self, found: Mapping[str, str]) -> None:
        """Take the head; interim answers (1xx) before it and trailers after it are ignored."""
        status = int(found.get(":status", "0"))
        if status >= 200:
            self.status, self.headers = status, found
        self._wake()

    def on_data(self, data: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(data)
        self._wake()

    def on_end(self, error: Exception | None = None) -> None:
        """The answer ends, completely or with an error."""
        self._complete, self._error = error is None, error
        self._wake()

    async def _change(self) -> None:
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


class Http2Connection:
    """One connection. `usable` until the server sends GOAWAY, or has as many exchanges as it allows."""

    def __init__(self, stream: TlsStream, encoder: Encoder) -> None:
        self._stream = stream
        self._encoder = encoder
        self._decoder = hpack.Decoder()
        self._tableless = False
        """Whether the server's header fields refer to no earlier ones."""
        self._exchanges: dict[int, _Exchange] = {}
        self._next = 1
        self._leaving = False
        self._max_exchanges = 100  # the recommended minimum, until the server sends its own limit
        self._send_window, self._initial_window = 65535, 65535
        self._consumed = 0
        self._writing = asyncio.Lock()
        self._fields = b""
        self._ends = False
        self._buffer = bytearray()
        self._complete = True
        """Whether the last data ended an exchange or a control frame: the loop reports what comes next."""
        self._replies: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Send preface and settings. Raises OSError."""
        # Without a table, header fields that don't matter here need not be decoded.
        settings = struct.pack(">HIHIHI", _ENABLE_PUSH, 0, _INITIAL_WINDOW, _WINDOW, _HEADER_TABLE, 0)
        preface = _PREFACE + _frame(_Kind.SETTINGS, 0, 0, settings)
        await self._stream.send(preface + _frame(_Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - 65535)))
        self._stream.listen(self._read)

    @property
    def usable(self) -> bool:
        """Whether a request may be sent on it."""
        return not self._leaving and len(self._exchanges) < self._max_exchanges

    @property
    def idle(self) -> bool:
        """Whether there is no open exchange."""
        return not self._exchanges

    def close(self) -> None:
        """Close it, with all open exchanges."""
        for reply in self._replies:
            reply.cancel()
        self._end(Closed())

    async def begin(self, request: Request) -> _Exchange:
        """Send a request and wait for the head of its answer. Raises Closed, Unprocessed, BadAnswer or OSError."""
        if not self.usable:
            raise Unprocessed("not sent: the server is closing this connection")
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
            self._exchanges.pop(identity, None)  # the rest of its answer is ignored
            raise
        return exchange

    def _request(self, identity: int, request: Request) -> bytes:
        body = request.body or b""
        if len(body) > min(self._send_window, self._initial_window, _MAX_FRAME):
            raise Unprocessed("not sent: the server accepts no more requests on this connection")
        self._send_window -= len(body)
        flags = _END_HEADERS if body else _END_HEADERS | _END_STREAM
        head = _frame(_Kind.HEADERS, flags, identity, self._encoder.http2(request))
        return head + _frame(_Kind.DATA, _END_STREAM, identity, body) if body else head

    def _read(self) -> None:
        """Read what has arrived. Called by the loop itself, which saves waking a task that wakes another."""
        try:
            while data := self._stream.take():
                self._frames(data)
                if self._leaving and self.idle:
                    break
                if self._complete:
                    return
            if data is None:
                return
            self._end(Closed())
        except OSError as error:
            self._end(Closed() if isinstance(error, BrokenPipeError | ConnectionResetError) else error)
        except (BadAnswer, hpack.HPACKError, struct.error, IndexError, ValueError) as error:
            self._end(BadAnswer(f"the answer is not HTTP/2: {error}"))

    def _frames(self, data: bytes) -> None:
        """Process all complete frames, and send the replies to them."""
        buffer, start, answer = self._buffer, 0, b""
        buffer += data
        while len(buffer) - start >= 9:
            end = start + 9 + int.from_bytes(buffer[start : start + 3], "big")
            if len(buffer) < end:
                break
            kind, flags = buffer[start + 3], buffer[start + 4]
            identity = int.from_bytes(buffer[start + 5 : start + 9], "big") & 0x7FFFFFFF
            answer += self._take(kind, flags, identity, bytes(buffer[start + 9 : end]))
            self._complete = kind not in (_Kind.DATA, _Kind.HEADERS, _Kind.CONTINUATION) or bool(flags & _END_STREAM)
            start = end
        del buffer[:start]
        self._complete = self._complete and not buffer
        if answer:
            reply = asyncio.create_task(self._reply(answer))
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)

    async def _reply(self, answer: bytes) -> None:
        try:
            async with self._writing:
                await self._stream.send(answer)
        except OSError:
            """Reading notices the end too, after the last data."""

    def _take(self, kind: int, flags: int, identity: int, payload: bytes) -> bytes:
        """Process one frame; returns the reply to it."""
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
                raise BadAnswer("a server push, which the settings forbid")
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
        self._consumed += len(payload)
        answer = b""
        if self._consumed >= _CREDIT:
            answer = _frame(_Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", self._consumed))
            self._consumed = 0
        if flags & _END_STREAM:
            self._finish(identity)
        elif exchange is not None:  # long answers (watches) use their stream's window too
            exchange.consumed += len(payload)
            if exchange.consumed >= _CREDIT:
                answer += _frame(_Kind.WINDOW_UPDATE, 0, identity, struct.pack(">I", exchange.consumed))
                exchange.consumed = 0
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
        found = self._decoded(self._fields)
        if (exchange := self._exchanges.get(identity)) is not None:
            exchange.on_fields(found)
        if self._ends:
            self._finish(identity)

    def _decoded(self, block: bytes) -> Mapping[str, str]:
        """Header fields; only the status of a 200, as nothing else in its head matters here."""
        start = len(_NO_TABLE) if block.startswith(_NO_TABLE) else 0
        self._tableless = self._tableless or start > 0
        if self._tableless and block[start] == _STATUS_200:
            return _GOOD
        return {str(name): str(value) for name, value in self._decoder.decode(block)}

    def _on_setting(self, name: int, value: int) -> None:
        if name == _MAX_STREAMS:
            self._max_exchanges = value
        elif name == _INITIAL_WINDOW:
            self._initial_window = value

    def _on_goaway(self, last: int, code: int) -> None:
        """The server accepts no new requests here; it still answers those up to `last`."""
        self._leaving = True
        why = (
            "the server is closing the connection"
            if code == _NO_ERROR
            else f"the server aborted the connection (error {code})"
        )
        for identity in [identity for identity in self._exchanges if identity > (last & 0x7FFFFFFF)]:
            self._finish(identity, Unprocessed(f"not processed: {why}"))

    def _finish(self, identity: int, error: Exception | None = None) -> None:
        if (exchange := self._exchanges.pop(identity, None)) is not None:
            exchange.on_end(error)

    def _end(self, error: Exception) -> None:
        self._leaving = True
        for identity in list(self._exchanges):
            self._finish(identity, error)
        self._stream.close()


def _reset(code: int) -> Exception:
    if code == _REFUSED_STREAM:
        return Unprocessed("not processed: the server refused the stream")
    return BadAnswer(f"the server reset the stream (error {code})")


def _frame(kind: int, flags: int, identity: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, identity) + payload
