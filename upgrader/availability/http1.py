"""HTTP/1.1, as much of it as a client of the API meets (RFC 9112)."""

from __future__ import annotations

from collections.abc import Mapping

from upgrader.availability.encode import Encoder
from upgrader.availability.http import BadAnswer, Closed, Request
from upgrader.availability.stream import Stream

__all__ = ["Http1Connection"]

_MAX_HEAD = 65536
_START = b"HTTP/1."
_NO_ANSWER = "what came is no HTTP/1.1 answer"


class Http1Connection:
    """One connection, one request at a time; also the answer to it, once its head has come."""

    def __init__(self, stream: Stream, encoder: Encoder) -> None:
        self._stream = stream
        self._encoder = encoder
        self._buffer = b""
        self._left: int | None = 0
        """Bytes of the body that are still to come; None: until the connection ends."""
        self._chunked = self._between = False
        self.reusable = True
        """Whether another request may follow the body that was read to its end."""
        self.status = 0
        self.headers: Mapping[str, str] = {}

    @property
    def stale(self) -> bool:
        """Whether the server has closed it while it was idle."""
        return self._stream.stale

    def close(self) -> None:
        """Let go of the connection."""
        self._stream.close()

    async def begin(self, request: Request) -> Http1Connection:
        """Send a request and wait for the head of its answer. Raises Closed, BadAnswer or OSError."""
        self.reusable = False  # until its answer has been read to the end
        try:
            await self._stream.send(self._encoder.http1(request) + (request.body or b""))
            await self._head()
            while self.status < 200:  # 1xx announces the answer
                await self._head()
        except (BrokenPipeError, ConnectionResetError) as error:
            if self._buffer:
                raise
            raise Closed from error
        return self

    async def chunk(self) -> bytes:
        """The next part of the body, b"" at its end. May be cancelled and called again: nothing is lost."""
        if self._chunked and self._left == 0:
            await self._next_chunk()
        if self._left == 0:
            self.reusable = self.headers.get("connection", "").lower() != "close"
            return b""
        data = self._buffer or await self._stream.receive(soon=True)
        if self._left is None:  # an answer without a length ends with its connection
            self._buffer = b""
            return data
        if not data:
            raise BadAnswer("closed in the middle of the answer")
        part, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(part)
        return part

    async def _next_chunk(self) -> None:
        if self._between and await self._line():
            raise BadAnswer("a chunk is longer than it says")
        self._between = False
        size = (await self._line()).partition(b";")[0]
        try:
            self._left = int(size, 16)
        except ValueError:
            raise BadAnswer(f"{size[:20]!r} is no chunk's size") from None
        self._between = self._left > 0
        if self._left == 0:
            while await self._line():
                """Trailers say nothing that matters here."""
            self._chunked = False

    async def _head(self) -> None:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            data = await self._stream.receive(soon=bool(self._buffer))
            if not (data or self._buffer):
                raise Closed
            self._received(data)
            if not self._buffer.startswith(_START[: len(self._buffer)]):
                raise BadAnswer(_NO_ANSWER)
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        self._buffer = self._buffer[end + 4 :]
        status = first.split(" ", 2)[1:2]
        if not (status and status[0].isdecimal()):
            raise BadAnswer(_NO_ANSWER)
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        self.status, self.headers = int(status[0]), headers
        self._chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        length = headers.get("content-length")
        if self._chunked or self.status in (204, 304) or self.status < 200:
            self._left = 0
        else:
            self._left = int(length) if length and length.isdecimal() else None

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            self._received(await self._stream.receive(soon=True))
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _received(self, data: bytes) -> None:
        """Take a part of what has to have an end."""
        if not data:
            raise BadAnswer("closed in the middle of the answer")
        if len(self._buffer) > _MAX_HEAD:
            raise BadAnswer("a line of the answer never ends")
        self._buffer += data
