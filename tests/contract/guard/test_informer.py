"""The informer on a real API server: pages, events, selectors, a forgotten moment, and a token that is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.guard.conftest import Pair
from upgrader.in_cluster.guard.guard_errors import ApiRefused, Conflict, VersionGone
from upgrader.in_cluster.guard.runtime import informer as informers
from upgrader.in_cluster.guard.runtime import listing as module
from upgrader.in_cluster.guard.runtime.api_client import JSON_PATCH, Api
from upgrader.in_cluster.guard.runtime.connection import Connection, Credentials, by_kubeconfig
from upgrader.in_cluster.guard.runtime.informer import Informer, whole
from upgrader.in_cluster.guard.runtime.resource import Resource
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent

CONFIG_MAPS = Resource("v1", "configmaps")
EVENTS = Resource("v1", "events")
TEMPLATES = Resource("v1", "podtemplates")
"""Nothing else lists or watches these."""


def asked(pair: Pair, test: Callable[[Api], Awaitable[None]]) -> None:
    """Run it with a client of the real API."""

    finished(by_kubeconfig(pair.kubeconfig), test)


def finished(connection: Connection, test: Callable[[Api], Awaitable[None]]) -> None:
    """Run it with a client of this connection; all of its sockets are closed in the end.

    A watch that is cancelled ends its TLS session with the server, for which aiohttp doesn't wait.
    """

    async def run() -> None:
        before = open_sockets()
        async with asyncio.timeout(30):
            async with Api(connection) as api:
                await test(api)
            await until_so(lambda: open_sockets() <= before)

    asyncio.run(run())


def open_sockets() -> set[str]:
    """This process's, as the kernel names them."""
    links = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder itself, which was read
            links.add(str(descriptor.readlink()))
    return {link for link in links if link.startswith("socket:")}


def config_map(name: str, **labels: str) -> dict[str, Any]:
    """An empty one."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


async def until_so(holds: Callable[[], bool]) -> None:
    """The test's own deadline ends it."""
    while not holds():
        await asyncio.sleep(0.01)


def test_it_knows_what_the_server_has(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pages of what matches, then each change, also one that takes an object out of the selector."""
    monkeypatch.setattr(module, "_LARGEST_PAGE", 3)

    async def test(api: Api) -> None:
        for number in range(10):
            await api.create(CONFIG_MAPS, config_map(f"page-{number}", test="pages"), "shop")
        informer = Informer(api, CONFIG_MAPS, "shop", keep=whole, labels="test=pages")
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        assert len(informer.objects) == 10
        await api.create(CONFIG_MAPS, config_map("page-new", test="pages"), "shop")
        await api.patch(CONFIG_MAPS, "page-3", {"metadata": {"labels": {"test": "other"}}}, "shop")
        await until_so(lambda: ("shop", "page-new") in informer.objects and ("shop", "page-3") not in informer.objects)
        task.cancel()

    asked(pair, test)


def test_a_quiet_server_is_no_doubt(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a resource of which nothing changes, a real server's watches may have no bookmark either: the list after each
    of them says what there is, as of then.
    """
    monkeypatch.setattr(informers, "_WATCH_SECONDS", 2)
    lists, page = list[float](), Api.page

    async def timed(*arguments: Any, **more: Any) -> Any:
        lists.append(time.monotonic())
        return await page(*arguments, **more)

    monkeypatch.setattr(Api, "page", timed)

    async def test(api: Api) -> None:
        informer = Informer(api, TEMPLATES, "shop", keep=whole)
        task = asyncio.create_task(informer.run())
        await until_so(lambda: len(lists) == 4)
        assert time.monotonic() - informer.silent_seconds() > lists[1], "as of the third list, or of the fourth"
        task.cancel()

    asked(pair, test)


def test_a_moment_that_is_forgotten_is_told_as_such(pair: Pair) -> None:
    """A watch from before etcd's last compaction is refused, so that all is listed again."""

    async def test(api: Api) -> None:
        made = await api.create(CONFIG_MAPS, config_map("younger"), "shop")
        command = [str(Binaries(Silent()).etcd() / "etcdctl"), f"--endpoints={pair.etcd}", "compact"]
        subprocess.run([*command, made["metadata"]["resourceVersion"]], check=True, capture_output=True)
        with pytest.raises(VersionGone):
            # The API server caches all but Events, and remembers longer than etcd does.
            async for _ in api.watch(EVENTS, "shop", {}, version="1", seconds=5):
                pass

    asked(pair, test)


def test_writes_of_an_old_version_are_conflicts(pair: Pair) -> None:
    """By replacement and by a patch that names the version it is for."""

    async def test(api: Api) -> None:
        first = await api.create(CONFIG_MAPS, config_map("conflict"), "shop")
        await api.patch(CONFIG_MAPS, "conflict", {"data": {"a": "b"}}, "shop")
        with pytest.raises(Conflict):
            await api.replace(CONFIG_MAPS, first, "shop")
        at = {"op": "replace", "path": "/metadata/resourceVersion", "value": first["metadata"]["resourceVersion"]}
        with pytest.raises(Conflict):
            await api.patch(
                CONFIG_MAPS,
                "conflict",
                [at, {"op": "add", "path": "/data", "value": {}}],
                "shop",
                content_type=JSON_PATCH,
            )
        with pytest.raises(Conflict):
            await api.create(CONFIG_MAPS, config_map("conflict"), "shop")
        assert await api.get(CONFIG_MAPS, "nobody", "shop") is None

    asked(pair, test)


def test_a_token_that_is_refused_is_read_again(pair: Pair) -> None:
    """Once; where the new one is refused too, that is the answer."""
    right = by_kubeconfig(pair.kubeconfig).credentials()
    tokens = iter(["replaced by now", right.token, *["nobody's"] * 9])
    connection = Connection(by_kubeconfig(pair.kubeconfig).url, lambda: Credentials(right.context, next(tokens)))

    async def test(api: Api) -> None:
        assert await api.get(CONFIG_MAPS, "nobody", "shop") is None
        connection.credentials(anew=True)
        with pytest.raises(ApiRefused, match="401"):
            await api.get(CONFIG_MAPS, "nobody", "shop")

    finished(connection, test)
