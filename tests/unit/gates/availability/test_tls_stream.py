"""TLS streams, against a real server."""

from __future__ import annotations

import asyncio
import select

from tests.unit.gates.availability.server import TOKEN, ApiServer
from upgrader.gates.availability.api_endpoint import read_endpoint
from upgrader.gates.availability.tls_stream import TlsStream

REQUEST = f"GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()


async def opened(api: ApiServer) -> TlsStream:
    """A stream on which a request was sent, and nothing has been read."""
    endpoint = read_endpoint(api.kubeconfig)
    stream = await TlsStream.open(endpoint, endpoint.tls)
    await stream.send(REQUEST)
    assert select.select([stream._socket], [], [], 30)[0]
    return stream


def test_what_comes_as_its_reader_gives_up_is_not_lost(api: ApiServer) -> None:
    """A reader that is cancelled at the very moment at which something came leaves it to the next one."""

    async def work() -> bytes:
        stream = await opened(api)
        reader = asyncio.create_task(stream.receive(soon=False))
        while stream._arrived is None:
            await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        assert reader.cancelled()
        async with asyncio.timeout(30):
            found = await stream.receive(soon=False)
        stream.close()
        return found

    assert asyncio.run(work()).startswith(b"HTTP/1.1 200")


def test_an_idle_stream_that_says_what_nobody_asked_is_stale(api: ApiServer) -> None:
    """Whatever a server says on an idle connection, the next answer on it would be the wrong one."""

    async def work() -> None:
        stream = await opened(api)
        async with asyncio.timeout(30):
            while not stream.stale:  # what came first were session tickets
                await asyncio.sleep(0)
        stream.close()

    asyncio.run(work())
