"""What an HTTP/1.1 connection makes of what servers send, and of what they don't."""

from __future__ import annotations

import asyncio
import ssl
from types import SimpleNamespace
from typing import cast

import pytest

from upgrader.gates.availability.api_endpoint import ApiEndpoint
from upgrader.gates.availability.credentials import Credentials
from upgrader.gates.availability.http1 import Http1Connection
from upgrader.gates.availability.http_exchange import BadAnswer, Closed, Request
from upgrader.gates.availability.request_encoder import Encoder
from upgrader.gates.availability.tls_stream import TlsStream

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CREDENTIALS = SimpleNamespace(tls=TLS, tls_http2=TLS, headers={"Authorization": "Bearer sesame"}, version=0)
ENDPOINT = ApiEndpoint("10.0.0.1", 6443, cast(Credentials, CREDENTIALS), "10.0.0.1")
GET = Request("GET", "/version")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class ScriptedStream:
    """A stream from which these parts come, one at a time; b"" is its end, and an error breaks it."""

    def __init__(self, *parts: bytes | OSError) -> None:
        self.parts = list(parts)
        self.sent = b""

    async def send(self, data: bytes) -> None:
        self.sent += data

    async def receive(self, *, soon: bool) -> bytes:
        part = self.parts.pop(0)
        if isinstance(part, OSError):
            raise part
        return part


def connection(*parts: bytes | OSError) -> Http1Connection:
    """A connection on which these parts come."""
    return Http1Connection(cast(TlsStream, ScriptedStream(*parts)), Encoder(ENDPOINT))


def answer(of: Http1Connection, request: Request = GET) -> tuple[int, bytes]:
    """The status and the body of the answer to a request."""

    async def work() -> tuple[int, bytes]:
        exchange, body = await of.begin(request), b""
        while part := await exchange.chunk():
            body += part
        return exchange.status, body

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("request_", "sent"),
    [
        (GET, b"GET /version HTTP/1.1\r\n"),
        (Request("PUT", "/x/a", b"{}"), b"PUT /x/a HTTP/1.1\r\n"),
    ],
    ids=["GET", "PUT"],
)
def test_a_request_as_it_is_sent(request_: Request, sent: bytes) -> None:
    """The request line, the host, the credentials, and the body with its length."""
    stream = ScriptedStream(OK)
    answer(Http1Connection(cast(TlsStream, stream), Encoder(ENDPOINT)), request_)
    head, _, body = stream.sent.partition(b"\r\n\r\n")
    assert head.startswith(sent)
    fields = {line.lower() for line in head.split(b"\r\n")[1:]}
    assert {b"host: 10.0.0.1:6443", b"authorization: bearer sesame"} <= fields
    assert body == (request_.body or b"")
    assert (b"content-length: 2" in fields) == (request_.body is not None)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (OK, b"{}"),
        (
            CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\n",
            b"abcde",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000, b"x" * 300_000),
    ],
    ids=["length", "chunks", "announced", "empty", "big"],
)
def test_answers_however_they_are_cut(sent: bytes, body: bytes, size: int) -> None:
    """An answer is the same whether it comes byte by byte or at once, and the connection can be used again."""
    step = size if len(sent) < 1000 else max(size, 1000)
    found = connection(*(sent[start : start + step] for start in range(0, len(sent), step)))
    assert answer(found) == (200, body)
    assert found.reusable


def test_a_connection_is_used_again() -> None:
    """The second answer on a connection is read as the first was."""
    found = connection(OK, b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx")
    assert [answer(found), answer(found)] == [(200, b"{}"), (404, b"x")]


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
    ids=["connection: close", "no length"],
)
def test_an_answer_after_which_the_server_closes(sent: bytes) -> None:
    """The answer is whole, but the connection isn't kept."""
    found = connection(sent, b"")
    assert answer(found) == (200, b"{}")
    assert not found.reusable


@pytest.mark.parametrize("end", [b"", ConnectionResetError(104, "reset"), BrokenPipeError(32, "broken")])
@pytest.mark.parametrize("before", [(), (b"HTTP/1.1 100 Continue\r\n\r\n",)], ids=["nothing", "1xx"])
def test_an_end_before_any_answer(before: tuple[bytes, ...], end: bytes | OSError) -> None:
    """The server may not have seen the request: a client may try again."""
    with pytest.raises(Closed):
        answer(connection(*before, end))


@pytest.mark.parametrize(
    "begun",
    [
        b"HTT",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{",
        CHUNKED + b"5\r\n{",
        CHUNKED + b"1\r\n{\r\n",
    ],
)
def test_an_end_in_the_middle_of_an_answer(begun: bytes) -> None:
    """An answer that has begun can't be had again."""
    with pytest.raises(BadAnswer, match="closed in the middle of the answer"):
        answer(connection(begun, b""))


def test_a_reset_in_the_middle_of_an_answer_is_told_as_it_is() -> None:
    """A connection that breaks in the middle of the head is no silent close."""
    with pytest.raises(ConnectionResetError):
        answer(connection(b"HTTP/1.1 200", ConnectionResetError(104, "reset")))


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"1\r\nab\r\n",
    ],
    ids=["another protocol", "no status", "no chunk size", "chunk too long"],
)
def test_what_is_no_http(sent: bytes) -> None:
    """It is refused as soon as it is seen, without waiting for more."""
    with pytest.raises(BadAnswer):
        answer(connection(sent))


def test_a_head_that_never_ends() -> None:
    """A server can't fill this machine's memory with header fields."""
    endless = [b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"y" * 10_000 + b"\r\n"] * 8]
    with pytest.raises(BadAnswer):
        answer(connection(*endless))
