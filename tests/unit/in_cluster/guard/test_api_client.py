"""The client of the API server, on a server that answers over HTTP."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from upgrader.in_cluster.guard.guard_errors import AnswerTooLarge, ApiAway, ApiRefused, NotFound, NotNow
from upgrader.in_cluster.guard.runtime import api_client
from upgrader.in_cluster.guard.runtime.api_client import Api, _Turn
from upgrader.in_cluster.guard.runtime.connection import Connection, Credentials
from upgrader.in_cluster.guard.runtime.informer import Informer, whole
from upgrader.in_cluster.guard.runtime.listing import everything
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


def test_a_page_of_too_many_bytes_is_asked_for_with_fewer_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's pods of 1.5 MiB, 500 to a page, are 750 MB of JSON: it is given up, and a smaller one is asked for,
    until all are listed.
    """
    monkeypatch.setattr(api_client, "_LARGEST_PAGE_BYTES", 100_000)
    pods = [{"metadata": {"name": f"db-{number}", "note": "x" * 10_000}} for number in range(40)]
    asked = list[int]()

    async def answer(request: web.Request) -> web.StreamResponse:
        limit, start = int(request.query["limit"]), int(request.query.get("continue") or 0)
        asked.append(limit)
        more = str(start + limit) if start + limit < len(pods) else ""
        meta = {"resourceVersion": "9", "continue": more}
        return web.json_response({"kind": "PodList", "metadata": meta, "items": pods[start : start + limit]})

    async def run() -> None:
        async with client(answer) as api:
            found, version = await everything(api, PODS, "", {}, lambda item: item["metadata"]["name"])
            assert (found, version) == ([pod["metadata"]["name"] for pod in pods], "9")
            assert asked[:4] == [500, 125, 31, 7] and max(asked[4:]) < 15

    asyncio.run(run())


def test_a_page_that_does_not_come_in_time_is_asked_for_with_fewer_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that has to put 750 MB together says nothing for a while. Of one object that says that it is away,
    as does a server that can't be reached.
    """

    timeout = aiohttp.ClientTimeout
    # The same limit is for both, and a busy machine may need that time to connect.
    monkeypatch.setattr(aiohttp, "ClientTimeout", lambda **given: timeout(**{**given, "sock_connect": None}))

    async def run() -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        async with client(answer) as api:
            api._timeout_seconds = 0.01
            for limit in (500, 1, 0):
                with pytest.raises(ApiAway, match="no answer in time") as refusal:
                    await api.page(PODS, "", {}, keep=whole, limit=limit)
                assert isinstance(refusal.value, AnswerTooLarge) is (limit == 500)

    asyncio.run(run())


def test_of_the_answers_with_a_large_object_one_is_read_at_a_time() -> None:
    """Evictions of a hundred pods of 1.5 MiB, on a dry run, have guard read all of them at once. Small ones don't wait,
    and an object that has no end is given up.
    """

    async def run() -> None:
        lock = asyncio.Lock()
        with _Turn(lock, "one") as one, _Turn(lock, "other") as other:
            await one.at(300_000)
            await one.at(400_000)
            await other.at(200_000)
            waiting = asyncio.ensure_future(other.at(300_000))
            await asyncio.sleep(0)
            assert not waiting.done()
            await one.at(0)
            await waiting
            with pytest.raises(ApiAway, match="other: an object has more than"):
                await other.at(17 << 20)
        assert not lock.locked()

    asyncio.run(run())


@pytest.mark.parametrize("least", [1, 60_000])
def test_an_event_of_a_watch_comes_in_pieces(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever pieces a large object comes in, it is one event; one without an end breaks the watch off."""
    monkeypatch.setattr(api_client, "LARGEST_OBJECT_BYTES", 1 << 20)
    event = {"type": "ADDED", "object": {"metadata": {"name": "ä", "resourceVersion": "7", "note": "x" * 500_000}}}

    async def answer(request: web.Request) -> web.StreamResponse:
        watch = web.StreamResponse()
        await watch.prepare(request)
        lines = (json.dumps(event) + "\n").encode() * 2 + b"x" * (2 << 20)
        for at in range(0, len(lines), 100_000 + least):
            await watch.write(lines[at : at + 100_000 + least])
        return watch

    async def run() -> None:
        async with client(answer) as api:
            events = api.watch(PODS, "", {}, version="1", seconds=5)
            assert [await anext(events), await anext(events)] == [event, event]
            with pytest.raises(ApiAway, match="an object has more than 1048576 bytes"):
                await anext(events)
            assert not api._large.locked()

    asyncio.run(run())


GONE = json.dumps({"kind": "Status", "reason": "NotFound", "message": 'pods "db-0" not found', "code": 404})


@pytest.mark.parametrize(
    "text", ["default backend - 404", "404 page not found\n", '{"type": "error", "status": 404}', ""]
)
def test_only_the_api_server_says_that_an_object_does_not_exist(text: str) -> None:
    """A load balancer, or a proxy that has lost the cluster, answers 404 to everything: no pod and no PodProtector is
    gone because of that, and nothing may be deleted.
    """

    async def run() -> None:
        said = [text]

        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(status=404, text=said[0])

        async with client(answer) as api:
            for ask in (api.get(PODS, "db-0", "shop"), api.delete(PODS, "db-0", "shop", uid="u")):
                with pytest.raises(ApiRefused, match="404: the answer isn't from an API server") as refused:
                    await ask
                assert not isinstance(refused.value, NotFound)
            said[0] = GONE
            assert await api.get(PODS, "db-0", "shop") is None
            with pytest.raises(NotFound, match="not found"):
                await api.delete(PODS, "db-0", "shop", uid="u")

    asyncio.run(run())


def test_which_kinds_are_served_is_told_by_a_list_of_groups() -> None:
    """A version that isn't among them isn't asked for; where no list comes, it isn't known."""
    served = {
        "/apis": {"groups": [{"versions": [{"groupVersion": "apps/v1"}]}, {}]},
        "/apis/apps/v1": {"resources": [{"name": "deployments"}]},
        "/api/v1": {"resources": [{"name": "pods"}]},
    }

    async def run() -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            found = served.get(request.path)
            return web.Response(status=404, text="404 page not found") if found is None else web.json_response(found)

        async with client(answer) as api:
            assert await api.kinds("apps/v1") == [{"name": "deployments"}]
            assert await api.kinds("v1") == [{"name": "pods"}]
            assert await api.kinds("rollout-operator.grafana.com/v1") == []
            del served["/apis"]
            with pytest.raises(ApiRefused):
                await api.kinds("apps/v1")

    asyncio.run(run())


@pytest.mark.parametrize(("status", "certain"), [(429, True), (500, False), (504, False)])
def test_only_a_refusal_for_now_says_that_nothing_was_done(status: int, certain: bool) -> None:
    """All of them may be asked again. After 500 or 504, the object may be gone."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "not now"}, status=status)

    async def run() -> None:
        async with client(answer) as api:
            with pytest.raises(ApiAway, match=f"{status}: not now") as told:
                await api.delete(PODS, "db-0", "shop", uid="1")
            assert isinstance(told.value, NotNow) is certain

    asyncio.run(run())
