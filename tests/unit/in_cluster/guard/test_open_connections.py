"""What whoever reaches a port of guard's can't do by connections alone: take its memory, or keep API servers out."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import cast

from aiohttp import web

from testkit.memory import TracedMemory
from tests.unit.in_cluster.guard.test_admission_server import PATH, review
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer, allow
from upgrader.in_cluster.guard.roles.admission_server import admission_app
from upgrader.in_cluster.guard.runtime.certificate_renewal import Wanted, renewed
from upgrader.in_cluster.guard.runtime.http_servers import ServedCertificate
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.open_connections import LimitedSite, OpenConnections

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Pipe:
    """A transport from an address."""

    def __init__(self, address: str) -> None:
        self.address, self.closed = address, False

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return self.address, 1

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def test_one_too_many_is_the_newest_of_the_address_that_has_most() -> None:
    """Who opens many closes his own, and an API server keeps the ones in which it waits for an answer."""
    connections = OpenConnections(4)
    server, many = [Pipe("10.0.0.1")], [Pipe("10.0.0.9") for _ in range(6)]
    for each in [*many, *server]:
        connections.add(cast(asyncio.Transport, each))
    assert [each.closed for each in many] == [False] * 3 + [True] * 3 and not server[0].closed
    server[0].closed = True
    another = Pipe("10.0.0.2")
    connections.add(cast(asyncio.Transport, another))
    assert not another.closed and not many[2].closed, "what is closed makes room"


def serve(
    test: Callable[[int], Awaitable[None]],
    *,
    context: ssl.SSLContext | None = None,
    most: int = 100,
    answering: asyncio.Event | None = None,
) -> None:
    """With a server that allows what it is asked, once `answering` is set."""

    async def decide(_: AdmissionRequest) -> Answer:
        if answering:
            await answering.wait()
        return allow()

    async def run() -> None:
        runner = web.AppRunner(admission_app({PATH: decide}, Metrics(), timeout_seconds=30), shutdown_timeout=0)
        await runner.setup()
        try:
            await LimitedSite(runner, "127.0.0.1", 0, context, lingering=0, most=most).start()
            await test(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    asyncio.run(run())


def request(**headers: str) -> bytes:
    """A review, as an API server sends it."""
    body = json.dumps(review()).encode()
    head = {"Host": "guard.guard.svc", "Content-Length": str(len(body)), **headers}
    lines = [f"POST {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    return "\r\n".join(lines).encode() + body


async def answer(streams: Streams, sent: bytes) -> bytes:
    """The status line of the answer; empty where the connection is closed instead."""
    reader, writer = streams
    writer.write(sent)
    try:
        async with asyncio.timeout(5):
            return await reader.readline()
    except ConnectionError:
        return b""


def test_connections_that_say_nothing_are_small() -> None:
    """asyncio's own have 256 KiB each before their first byte: six hundred ended guard's pod."""

    async def test(port: int) -> None:
        with TracedMemory() as memory:
            opened = [await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(20)]
            await asyncio.sleep(0)
            taken = memory.kept
        assert taken < 20 * 64 * 1024, "of both sides"
        for _, writer in opened:
            writer.close()

    serve(test, context=shown().context)


def shown() -> ServedCertificate:
    """A certificate, as guard makes it."""
    served, bundle = ServedCertificate(), renewed(None, Wanted(("localhost",)), datetime.now(UTC), injected=False)
    served.show(bundle.leaf.certificate, bundle.leaf.key)
    return served


def test_over_tls_a_request_is_answered() -> None:
    """What is small is still TLS: with the certificate that is shown, and bodies of more than one record."""

    async def test(port: int) -> None:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        streams = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        large = json.dumps(review(object={"x": "a" * 200_000, "spec": {"replicas": 1}})).encode()
        head = f"POST {PATH} HTTP/1.1\r\nHost: guard\r\nContent-Length: {len(large)}\r\n\r\n".encode()
        assert await answer(streams, head + large) == b"HTTP/1.1 200 OK\r\n"
        streams[1].close()

    serve(test, context=shown().context)


def test_who_takes_all_connections_keeps_nobody_else_out() -> None:
    """An API server has another address than the pod that opens them."""

    async def test(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0)) for _ in range(8)]
        server = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.1", 0))
        assert await answer(server, request()) == b"HTTP/1.1 200 OK\r\n"
        for _, writer in [*silent, server]:
            writer.close()

    serve(test, most=3)


def test_a_head_that_no_api_server_sends_is_refused() -> None:
    """Each connection may keep one in memory, for as long as it likes."""

    async def test(port: int) -> None:
        for headers in ({"X-Long": "a" * 3000}, {f"X-{n}": "a" for n in range(40)}):
            streams = await asyncio.open_connection("127.0.0.1", port)
            assert b" 400 " in await answer(streams, request(**headers))
            streams[1].close()
        streams = await asyncio.open_connection("127.0.0.1", port)
        token = {"Authorization": f"Bearer {'a' * 1500}", "Traceparent": "00-1-2-01", "User-Agent": "kube-apiserver"}
        assert b" 200 " in await answer(streams, request(**token)), "one may have been told to send a token"
        streams[1].close()

    serve(test)


def test_requests_before_the_last_one_is_answered_end_the_connection() -> None:
    """They would be kept, with bodies that nobody counts; API servers send one after the other."""

    answering = asyncio.Event()

    async def test(port: int) -> None:
        streams = await asyncio.open_connection("127.0.0.1", port)
        assert await answer(streams, request() * 30) == b"", "closed, without an answer"
        streams[1].close()
        answering.set()
        streams = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            assert await answer(streams, request()) == b"HTTP/1.1 200 OK\r\n"
            await streams[0].readuntil(b"}}")
        streams[1].close()

    serve(test, answering=answering)
