"""HTTP/1.1 over a stream, by h11 (RFC 9112)."""

from __future__ import annotations

from collections.abc import Mapping

import h11

from upgrader.gates.availability.http_exchange import BadAnswer, Closed, Request
from upgrader.gates.availability.request_encoder import Encoder
from upgrader.gates.availability.tls_stream import TlsStream

__all__ = ["Http1Connection"]

_MAX_HEAD = 65536
_START = b"HTTP/1."
_NO_ANSWER = "the answer is not HTTP/1.1"
_CUT_OFF = "closed in the middle of the answer"


class Http1Connection:
    """One connection, one request at a time; also the answer to it, once its head has arrived."""

    def __init__(self, stream: TlsStream, encoder: Encoder) -> None:
        self._stream = stream
        self._encoder = encoder
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._answered = False
        """Whether any part of an answer to the present request has arrived."""
        self.reusable = True
        """Whether another request may follow, once the body was read to its end."""
        self.status = 0
        self.headers: Mapping[str, str] = {}

    @property
    def stale(self) -> bool:
        """Whether the server has closed it while it was idle."""
        return self._stream.stale

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    async def begin(self, request: Request) -> Http1Connection:
        """Send a request and wait for the head of its answer. Raises Closed, BadAnswer or OSError."""
        if self._protocol.our_state is h11.DONE:
            self._protocol.start_next_cycle()
        self.reusable = self._answered = False  # until its answer has been read to the end
        try:
            await self._stream.send(self._encoded(request))
            await self._head()
        except (BrokenPipeError, ConnectionResetError) as error:
            if self._answered:
                raise
            raise Closed from error
        except h11.RemoteProtocolError as error:
            raise BadAnswer(_NO_ANSWER) from error
        return self

    async def chunk(self) -> bytes:
        """The next part of the body, b"" at its end. May be cancelled and called again: nothing is lost."""
        ended = False
        try:
            while self._protocol.their_state is h11.SEND_BODY:
                event = self._protocol.next_event()
                if isinstance(event, h11.Data):
                    return bytes(event.data)
                if event is h11.NEED_DATA:
                    data = await self._stream.receive(soon=True)
                    ended = not data
                    self._protocol.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise BadAnswer(_CUT_OFF if ended else _NO_ANSWER) from error
        # An answer without a length ends with its connection.
        self.reusable = not ended and self._protocol.our_state is self._protocol.their_state is h11.DONE
        return b""

    def _encoded(self, request: Request) -> bytes:
        parts = [self._protocol.send(self._encoder.http1(request))]
        if request.body:
            parts.append(self._protocol.send(h11.Data(data=request.body)))
        parts.append(self._protocol.send(h11.EndOfMessage()))
        return b"".join(part for part in parts if part)

    async def _head(self) -> None:
        while not isinstance(event := self._protocol.next_event(), h11.Response):
            if isinstance(event, h11.InformationalResponse):  # it announces the answer
                self._answered = bool(self._protocol.trailing_data[0])
                continue
            data = await self._stream.receive(soon=self._answered)
            if not data:
                raise BadAnswer(_CUT_OFF) if self._answered else Closed
            # h11 itself would wait for the end of a head even then.
            if not self._answered and not data.startswith(_START[: len(data)]):
                raise BadAnswer(_NO_ANSWER)
            self._answered = True
            self._protocol.receive_data(data)
        self.status = event.status_code
        self.headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
