"""One unary gRPC call at a time over a Unix socket."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions

_FRAME = 65536
_MAX_MESSAGE = 64 * 2**20


class GrpcError(Exception):
    """The call failed: the socket, the protocol, or a status other than OK. The message names which."""


class Channel:
    """A connection that lives for a few calls. `timeout_seconds`: seconds for each call, all waiting included."""

    def __init__(self, path: str, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._path = path
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_seconds)
        try:
            self._socket.connect(path)
            self._h2.initiate_connection()
            self._socket.sendall(self._h2.data_to_send())
        except OSError as error:
            self._socket.close()
            raise GrpcError(f"{path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def call(self, method: str, request: bytes) -> bytes:
        """The response's message. `method` is /package.Service/Method. Raises GrpcError."""
        try:
            return self._call(method, request)
        except (OSError, h2.exceptions.ProtocolError) as error:
            raise GrpcError(f"{self._path} {method}: {error}") from error

    def _call(self, method: str, request: bytes) -> bytes:
        stream = self._h2.get_next_available_stream_id()
        self._h2.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            ],
        )
        self._h2.send_data(stream, struct.pack(">BI", 0, len(request)) + request, end_stream=True)
        self._socket.sendall(self._h2.data_to_send())
        body, headers = self._receive(method, stream)
        status = headers.get("grpc-status", "missing")
        if status != "0":
            raise GrpcError(f"{self._path} {method}: status {status} {headers.get('grpc-message', '')}".rstrip())
        if len(body) < 5 or body[0] != 0 or struct.unpack(">I", body[1:5])[0] != len(body) - 5:
            raise GrpcError(f"{self._path} {method}: not one whole uncompressed message")
        return bytes(body[5:])

    def _receive(self, method: str, stream: int) -> tuple[bytearray, dict[str, str]]:
        deadline = time.monotonic() + self._timeout_seconds
        body, headers = bytearray(), dict[str, str]()
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise GrpcError(f"{self._path} {method}: no answer within {self._timeout_seconds:g} s")
            self._socket.settimeout(left)
            data = self._socket.recv(_FRAME)
            if not data:
                raise GrpcError(f"{self._path} {method}: closed before the answer was complete")
            for event in self._h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    body += event.data
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    if len(body) > _MAX_MESSAGE:
                        raise GrpcError(f"{self._path} {method}: answer larger than {_MAX_MESSAGE} bytes")
                elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    headers.update((str(k), str(v)) for k, v in event.headers)
                elif isinstance(event, h2.events.StreamEnded) and event.stream_id == stream:
                    self._flush()
                    return body, headers
                elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                    raise GrpcError(f"{self._path} {method}: ended by the server, error code {event.error_code}")
            self._flush()

    def _flush(self) -> None:
        pending = self._h2.data_to_send()
        if pending:
            self._socket.sendall(pending)
