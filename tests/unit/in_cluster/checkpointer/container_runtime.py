"""A container runtime: its answers in wire format, and a server that gives them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import h2.config
import h2.connection
import h2.events

from testkit.waiting import stretched


def field(number: int, value: bytes | str | int) -> bytes:
    """One protobuf field."""
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """A protobuf number."""
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def entry(key: str, value: str) -> bytes:
    """A map entry."""
    return field(1, key) + field(2, value)


def sandbox(name: str = "kube-apiserver-abc-x1", state: int = 0, source: str = "api", label: str = "") -> bytes:
    """A ListPodSandboxResponse with one sandbox. A state of 0 (ready) is left out, as proto3 does."""
    item = field(1, f"s-{name}") + field(2, field(1, name) + field(2, "uid") + field(3, "kube-system"))
    item += field(3, state) if state else b""
    item += field(4, 1_700_000_000_000_000_000) + field(5, entry("pod-template-hash", "abc"))
    item += field(5, entry(label, "kube-apiserver")) if label else b""
    return field(1, item + field(6, entry("kubernetes.io/config.source", source)) + field(7, "runc"))


def container(name: str, state: int, identity: str, pod: str = "kube-apiserver-abc-x1") -> bytes:
    """A ListContainersResponse with one container."""
    item = field(1, identity) + field(2, f"s-{pod}") + field(3, field(1, name) + field(2, 3)) + field(5, "sha256:aa")
    return field(1, item + (field(6, state) if state else b"") + field(7, 1_700_000_000_000_000_000))


def framed(message: bytes) -> bytes:
    """A gRPC message: not compressed, with its length."""
    return struct.pack(">BI", 0, len(message)) + message


Answer = Callable[[str], tuple[bytes, str]]
Frame = Callable[[bytes], bytes]


class Runtime:
    """A gRPC server on a Unix socket. `answer`: method → (message, grpc-status); `framed`: how it frames a message.

    In place of an answer, `cut` drops the connection, and `reset` ends the request.
    """

    def __init__(
        self, path: Path, answer: Answer, cut: bool = False, reset: bool = False, framed: Frame = framed
    ) -> None:
        self._answer, self._cut, self._reset, self._framed = answer, cut, reset, framed
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for the thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(stretched(5))

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, contextlib.suppress(ConnectionError):  # the client may leave as soon as it has its answer
                self._talk(peer)

    def _talk(self, peer: socket.socket) -> None:
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        peer.sendall(http.data_to_send())
        paths: dict[int, str] = {}
        pending: dict[int, bytes] = {}
        while data := peer.recv(65536):
            for event in http.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    paths[event.stream_id] = next(str(v) for k, v in event.headers if str(k) == ":path")
                elif isinstance(event, h2.events.StreamEnded):
                    if self._cut:
                        return
                    if self._reset:
                        http.reset_stream(event.stream_id, error_code=2)
                        continue
                    message, status = self._answer(paths[event.stream_id])
                    http.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/grpc")])
                    pending[event.stream_id] = self._framed(message) if status == "0" else b""
                    paths[event.stream_id] = status
            for stream, rest in list(pending.items()):
                # Large answers wait for the client to open its window.
                while rest and (room := min(http.local_flow_control_window(stream), http.max_outbound_frame_size)):
                    http.send_data(stream, rest[:room])
                    rest = rest[room:]
                pending[stream] = rest
                if not rest:
                    del pending[stream]
                    trailers = [("grpc-status", paths[stream]), ("grpc-message", "no such thing")]
                    http.send_headers(stream, trailers, end_stream=True)
            peer.sendall(http.data_to_send())
