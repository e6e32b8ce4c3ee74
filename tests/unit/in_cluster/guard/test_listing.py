"""Lists of all objects: their pages are followed to the end, and no list without one is followed for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.test_api_client import client
from upgrader.in_cluster.guard.guard_errors import ApiAway, VersionGone
from upgrader.in_cluster.guard.runtime import listing as module
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.informer import Informer, whole
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.resource import Resource

PODS = Resource("v1", "pods")
GONE = VersionGone("too old", 410)
_MANY = 20
"""Requests, after which the server stops to answer: none of these lists needs as many."""


def pages(answer: Callable[[str, int], tuple[list[str], str]], test: Callable[[Api], Awaitable[None]]) -> list[str]:
    """Runs the test with a server whose pages have these names and this token, by the token and the number of the
    request; returns the tokens that it was asked with.
    """
    asked = list[str]()

    async def answered(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        asked.append(token)
        if len(asked) > _MANY:
            return web.Response(status=400, text="asked without an end")
        names, more = answer(token, len(asked))
        items = [{"metadata": {"name": name, "namespace": "shop", "resourceVersion": "7"}} for name in names]
        return web.json_response({"metadata": {"resourceVersion": "9", "continue": more}, "items": items})

    async def run() -> None:
        async with client(answered) as api:
            await test(api)

    asyncio.run(run())
    return asked


def tells(match: str) -> Callable[[Api], Awaitable[None]]:
    """A test that all pods in `shop` can't be listed for this reason."""

    async def test(api: Api) -> None:
        with pytest.raises(ApiAway, match=match):
            await everything(api, PODS, "shop", {}, whole)

    return test


def test_a_list_that_continues_with_the_page_just_read_is_given_up() -> None:
    """A proxy or an aggregated API server that drops `continue` answers the first page for ever, with its token."""
    match = "GET /api/v1/namespaces/shop/pods: the list has no end: the API server returned the same page twice"
    assert pages(lambda *_: (["a"], "again"), tells(match)) == ["", "again"]


def test_a_list_that_shows_the_same_page_with_other_tokens_is_given_up() -> None:
    """The pages would fill guard's memory long before their number is suspicious."""
    match = "the list has no end: two pages begin with shop/a"
    assert len(pages(lambda _, number: (["a", "b"], f"token-{number}"), tells(match))) == 2


@pytest.mark.parametrize("in_pages", [0, 2])
def test_a_list_of_ever_more_empty_pages_is_given_up(in_pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty page counts as a full one: each may be followed by others. Also where no pages were asked for."""
    monkeypatch.setattr(module, "_IN_PAGES", in_pages)
    monkeypatch.setattr(module, "_MOST_OBJECTS", 2000)
    match = "the list has no end: there are more pages after 2,000 objects"
    assert len(pages(lambda _, number: ([], f"token-{number}"), tells(match))) == 4


def test_pages_of_a_list_that_ends_are_all_read() -> None:
    """Empty pages among them, with a token that comes twice: an aggregated API server's tokens may be of any form."""
    tokens = {"": (["a"], "x"), "x": ([], "y"), "y": (["b", "c"], "")}

    async def test(api: Api) -> None:
        found, version = await everything(api, PODS, "shop", {}, lambda item: item["metadata"]["name"])
        assert (found, version) == (["a", "b", "c"], "9")

    assert pages(lambda token, _: tokens[token], test) == ["", "x", "y"]


def test_a_server_that_pages_where_no_pages_were_asked_for_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregated API server may limit each answer by itself: its token is passed on then too."""
    monkeypatch.setattr(module, "_IN_PAGES", 0)
    tokens = {"": (["a"], "x"), "x": (["b"], "")}

    async def test(api: Api) -> None:
        found, _ = await everything(api, PODS, "shop", {}, lambda item: item["metadata"]["name"])
        assert found == ["a", "b"]

    assert pages(lambda token, _: tokens[token], test) == ["", "x"]


@pytest.mark.parametrize("verb", ["page", "watch"])
def test_a_server_that_forgets_every_moment_at_once_is_not_asked_in_a_loop(verb: str) -> None:
    """It answers 410 to every list, or to every watch from a list that it has just answered: the next list waits, a
    longer time each time.
    """

    async def run() -> None:
        api, waited = FakeApi(), list[float]()

        class Counting(Backoff):
            def next_seconds(self) -> float:
                waited.append(super().next_seconds())
                return 0

        api.next_answer(verb, *[GONE] * 40)
        informer = Informer(api, PODS, keep=whole, backoff=Counting(chance=lambda: 0), clock=lambda: 1.0)
        task = asyncio.create_task(informer.run())
        while api.answers[verb]:
            await asyncio.sleep(0)
        task.cancel()
        assert waited[:4] == [0.5, 1.0, 2.0, 4.0]

    asyncio.run(run())
