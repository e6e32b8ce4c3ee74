"""The client of the API server, on a server that answers over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import Connection, Credentials
from upgrader.in_cluster.guard.runtime.informer import Informer, whole
from upgrader.in_cluster.guard.runtime.resource import Resource

PODS = Resource("v1", "pods")


@asynccontextmanager
async def client(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[Api]:
    """Of a server that answers every request so."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        connection = Connection(str(server.make_url("")), lambda: Credentials(ssl.create_default_context()))
        async with Api(connection, timeout_seconds=5) as api:
            yield api


def test_watches_of_many_namespaces_keep_nothing_else_waiting() -> None:
    """With 120 caches that follow the server, all are listed, and an object is still read at once."""

    async def run() -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
            watch = web.StreamResponse()
            await watch.prepare(request)
            await asyncio.Event().wait()
            return watch

        async with client(answer) as api, asyncio.timeout(30):
            informers = [Informer(api, PODS, f"shop-{number}", keep=whole) for number in range(120)]
            following = [asyncio.ensure_future(each.run()) for each in informers]
            try:
                for each in informers:
                    await each.synced.wait()
                assert await api.get(PODS, "db-0", "shop-0") is not None
            finally:
                for task in following:
                    task.cancel()
                await asyncio.gather(*following, return_exceptions=True)

    asyncio.run(run())
