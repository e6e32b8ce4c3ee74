"""One unary gRPC call over a Unix socket, for a Python without libraries.

gRPC is HTTP/2, of which a client that decodes no headers needs little: headers only carry the status, and a call that
succeeded has a message.
"""

from __future__ import annotations

import socket
import struct
import time

from upgrader.onhost.common.questions import SECONDS, Failed

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END, _ACK = 1, 1
_ALL_HEADERS = 4
_PADDED = 8
_ROOM = 1 << 30
_MOST = 64 << 20
_WINDOW_SIZE = 4


def call(path: str, method: str, request: bytes, seconds: float = SECONDS) -> bytes:
    """The response's message; `method` is such as `/runtime.v1.RuntimeService/Version`. Raises Failed."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            until = time.monotonic() + seconds
            link.settimeout(seconds)
            link.connect(path)
            link.sendall(_opening(method, request))
            body = _answer(link, until)
    except OSError as error:
        raise Failed("{}: {}".format(path, error.strerror or error or "no answer in time")) from error
    if len(body) < 5 or body[0] != 0 or struct.unpack(">I", body[1:5])[0] != len(body) - 5:
        raise Failed(f"{path}: {method} was refused")
    return body[5:]


def _opening(method: str, request: bytes) -> bytes:
    headers = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    )
    # Literal headers that are never indexed (RFC 7541, 6.2.2): no table and no Huffman code is needed.
    block = b"".join(b"\x00" + _string(name) + _string(value) for name, value in headers)
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0, struct.pack(">HI", _WINDOW_SIZE, _ROOM))
        + _frame(_WINDOW, 0, 0, struct.pack(">I", _ROOM))
        + _frame(_HEADERS, _ALL_HEADERS, 1, block)
        + _frame(_DATA, _END, 1, struct.pack(">BI", 0, len(request)) + request)
    )


def _string(text: str) -> bytes:
    raw = text.encode()
    if len(raw) >= 127:
        raise Failed(f"a header of {len(raw)} bytes")
    return bytes([len(raw)]) + raw


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _answer(link: socket.socket, until: float) -> bytes:
    body = b""
    while True:
        head = _exactly(link, 9, until)
        size = struct.unpack(">I", b"\0" + head[:3])[0]
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        payload = _exactly(link, size, until)
        if kind == _SETTINGS and not flags & _ACK:
            link.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            link.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY or (kind == _RESET and stream == 1):
            raise Failed("the container runtime reset the call")
        elif stream == 1:
            if kind == _DATA:
                body += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if len(body) > _MOST:
                raise Failed("the container runtime's response is too large")
            if kind in (_DATA, _HEADERS) and flags & _END:
                return body


def _exactly(link: socket.socket, size: int, until: float) -> bytes:
    parts: list[bytes] = []
    while size:
        left = until - time.monotonic()
        if left <= 0:
            raise Failed("no answer in time")
        link.settimeout(left)
        part = link.recv(min(size, 65536))
        if not part:
            raise Failed("the container runtime closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
