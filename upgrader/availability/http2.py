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

from upgrader.availability.http_exchange import BadAnswer, Closed, Request, Unprocessed
from upgrader.availability.request_encoder import Encoder
from upgrader.availability.tls_stream import TlsStream

__all__ = ["Http2Connection"]

_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED, _PRIORITY = 0x4, 0x8, 0x20
_ENABLE_PUSH, _MAX_STREAMS, _INITIAL_WINDOW, _HEADER_TABLE = 2, 3, 4, 1
_NO_ERROR, _REFUSED_STREAM = 0, 7
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MAX_FRAME = 16384
_WINDOW = 2**24
"""How many bytes the server may send ahead, on a stream and on the connection: far more than any answer here has."""
_CREDIT = _WINDOW // 4
"""It is told that it may go on when it has sent this much: for every part, that would cost a message each."""
_NO_TABLE = b"\x20"
"""How a block of header fields begins in which the server takes note that it may keep no table of earlier ones."""
_STATUS_200 = 0x88
"""What ":status: 200" is then compressed to, always; such a block says nothing else that matters here."""
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
        """Bytes of its body that the server has not been given credit for yet."""
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
                raise BadAnswer(f"{str(self._error) or 'closed'} in the middle of the answer")
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

    def __init__(self, stream: TlsStream, encoder: Encoder) -> None:
        self._stream = stream
        self._encoder = encoder
        self._decoder = hpack.Decoder()
        self._tableless = False
        """Whether the server's header fields refer to no earlier ones."""
        self._exchanges: dict[int, _Exchange] = {}
        self._next = 1
        self._leaving = False
        self._max_exchanges = 100  # until the server says how many: what it should allow at least
        self._send_window, self._initial_window = 65535, 65535
        self._consumed = 0
        self._writing = asyncio.Lock()
        self._fields = b""
        self._ends = False
        self._buffer = bytearray()
        self._at_rest = True
        """Whether what came last was the end of something: more is told by the loop, when it comes."""
        self._replies: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Say hello. Raises OSError."""
        # Without a table, header fields that say nothing here can be passed over.
        settings = struct.pack(">HIHIHI", _ENABLE_PUSH, 0, _INITIAL_WINDOW, _WINDOW, _HEADER_TABLE, 0)
        hello = _PREFACE + _frame(_Kind.SETTINGS, 0, 0, settings)
        await self._stream.send(hello + _frame(_Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - 65535)))
        self._stream.listen(self._read)

    @property
    def usable(self) -> bool:
        """Whether a request may be sent on it."""
        return not self._leaving and len(self._exchanges) < self._max_exchanges

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._exchanges

    def close(self) -> None:
        """End it, with all that goes on in it."""
        for reply in self._replies:
            reply.cancel()
        self._end(Closed())

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
        flags = _END_HEADERS if body else _END_HEADERS | _END_STREAM
        head = _frame(_Kind.HEADERS, flags, identity, self._encoder.http2(request))
        return head + _frame(_Kind.DATA, _END_STREAM, identity, body) if body else head

    def _read(self) -> None:
        """Take what has come. Called by the loop: no task has to be woken for it, and then wake another."""
        try:
            while data := self._stream.take():
                self._frames(data)
                if self._leaving and self.idle:
                    break
                if self._at_rest:
                    return
            if data is None:
                return
            self._end(Closed())
        except OSError as error:
            self._end(Closed() if isinstance(error, BrokenPipeError | ConnectionResetError) else error)
        except (BadAnswer, hpack.HPACKError, struct.error, IndexError, ValueError) as error:
            self._end(BadAnswer(f"what came is no HTTP/2: {error}"))

    def _frames(self, data: bytes) -> None:
        """Take all whole frames, and send what is to be answered to them."""
        buffer, start, answer = self._buffer, 0, b""
        buffer += data
        while len(buffer) - start >= 9:
            end = start + 9 + int.from_bytes(buffer[start : start + 3], "big")
            if len(buffer) < end:
                break
            kind, flags = buffer[start + 3], buffer[start + 4]
            identity = int.from_bytes(buffer[start + 5 : start + 9], "big") & 0x7FFFFFFF
            answer += self._take(kind, flags, identity, bytes(buffer[start + 9 : end]))
            self._at_rest = kind not in (_Kind.DATA, _Kind.HEADERS, _Kind.CONTINUATION) or bool(flags & _END_STREAM)
            start = end
        del buffer[:start]
        self._at_rest = self._at_rest and not buffer
        if answer:
            reply = asyncio.create_task(self._reply(answer))
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)

    async def _reply(self, answer: bytes) -> None:
        try:
            async with self._writing:
                await self._stream.send(answer)
        except OSError:
            """Whoever closed it also ends what is read from it, with what came before the end."""

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
        self._consumed += len(payload)
        answer = b""
        if self._consumed >= _CREDIT:
            answer = _frame(_Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", self._consumed))
            self._consumed = 0
        if flags & _END_STREAM:
            self._finish(identity)
        elif exchange is not None:  # long answers (watches) have a window of their own
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
        """Header fields; of an answer with status 200 only that, as nothing else in its head matters here."""
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
        self._stream.close()


def _reset(code: int) -> Exception:
    if code == _REFUSED_STREAM:
        return Unprocessed("not processed: the server refused the stream")
    return BadAnswer(f"the server reset the stream (error {code})")


def _frame(kind: int, flags: int, identity: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, identity) + payload
