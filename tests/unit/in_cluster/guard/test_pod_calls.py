"""Requests to pods, whose answers are what tenants make of them."""

from __future__ import annotations

import asyncio
import gzip

from aiohttp import web
from aiohttp.test_utils import TestServer

from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls


def test_a_compressed_answer_is_not_unpacked() -> None:
    """A thousand times as much could be in it: 64 MiB for each of the pods that are asked at once."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b" " * (8 << 20)), headers={"Content-Encoding": "gzip"})

    async def run() -> tuple[int, bytes, str]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with TestServer(app) as server, PodCalls() as calls:
            assert server.port is not None
            return await calls.send("POST", "127.0.0.1", scheme="http", port=server.port, path="/", host="db-0")

    status, body, _ = asyncio.run(run())
    assert status == 200 and body.startswith(b"\x1f\x8b")
