"""Watches, against a server that ends, breaks and falsifies them."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.gates.availability.server import ApiServer, Step
from upgrader.gates.availability.api_endpoint import read_endpoint
from upgrader.gates.availability.http_clients import PROTOCOLS, Protocols
from upgrader.gates.availability.long_watch import LongWatch
from upgrader.gates.availability.retry_policy import Outcome

Seen = tuple[LongWatch, list[tuple[str, Outcome]]]


def watch(api: ApiServer, protocol: Protocols, script: tuple[Step, ...], *, events: int = 2) -> Seen:
    """A watch over two changes, with a script between them; the watcher, and what it recorded."""
    recorded: list[tuple[str, Outcome]] = []

    async def work() -> LongWatch:
        watcher = LongWatch(
            read_endpoint(api.kubeconfig),
            protocol,
            "/api/v1/namespaces/n/configmaps",
            "a",
            deadline_seconds=10.0,
            record=lambda what, outcome, due: recorded.append((what, outcome)),
        )
        task = asyncio.create_task(watcher.run())

        async def until(number: int) -> None:
            async with asyncio.timeout(60):
                while watcher.continuity.events < number:
                    await asyncio.sleep(0.01)

        async with asyncio.timeout(60):
            while not any(what == "watch" for what, _ in recorded):
                await asyncio.sleep(0.01)
        change(api, watcher)
        await until(1)
        with api.changed:
            api.watch_script[:] = script
            api.changed.notify_all()
        async with asyncio.timeout(60):
            while api.watch_script:
                await asyncio.sleep(0.01)
        if script and script[0] not in ("lose", "again"):
            async with asyncio.timeout(60):
                # After 410, changes before the new list would be in the list, and never be events.
                lists = 2 if script[0] == 410 else 1
                while watcher.resumed == 0 or [what for what, _ in recorded].count("list (to watch)") < lists:
                    await asyncio.sleep(0.01)
        change(api, watcher)
        change(api, watcher)
        await until(events)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return watcher

    return asyncio.run(work()), recorded


def change(api: ApiServer, watcher: LongWatch) -> None:
    """Change the object, and say so, as its writer does."""
    api.write("a")
    watcher.continuity.changed(api.version, asyncio.get_running_loop().time())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_watch_tells_of_every_change(api: ApiServer, protocol: Protocols) -> None:
    """A watch that nothing disturbs misses and repeats nothing, and is counted as one request, its list as another."""
    watcher, recorded = watch(api, protocol, (), events=3)
    assert (watcher.continuity.missed, watcher.continuity.repeated, watcher.resumed) == (0, 0, 0)
    assert recorded == [("list (to watch)", Outcome(True, False)), ("watch", Outcome(True, False))]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_watch_that_ends_goes_on_where_it_was(api: ApiServer, protocol: Protocols) -> None:
    """A server may end a watch in good order: it goes on from the last event, nothing is missed, and nothing failed."""
    watcher, recorded = watch(api, protocol, ("end",), events=3)
    assert (watcher.continuity.missed, watcher.continuity.repeated, watcher.resumed) == (0, 0, 1)
    assert [outcome.ok for _, outcome in recorded] == [True, True, True]
    assert "resourceVersion=101" in api.watches[-1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_watch_that_breaks_has_failed(api: ApiServer, protocol: Protocols) -> None:
    """A connection that ends in the middle of a watch is a failure, though nothing is missed after it."""
    watcher, recorded = watch(api, protocol, ("break",), events=3)
    assert (watcher.continuity.missed, watcher.resumed) == (0, 1)
    broken = [outcome for what, outcome in recorded if what == "watch" and not outcome.ok]
    assert len(broken) == 1
    assert "in the middle of the answer" in broken[0].error


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lost_events_are_missed(api: ApiServer, protocol: Protocols) -> None:
    """A server that leaves a change out of a watch is found out."""
    watcher, _ = watch(api, protocol, ("lose",), events=2)
    assert (watcher.continuity.missed, watcher.continuity.repeated) == (1, 0)


def test_repeated_events_are_counted(api: ApiServer) -> None:
    """A server that tells of a change twice is found out."""
    watcher, _ = watch(api, "HTTP/1.1", ("again",), events=4)
    assert (watcher.continuity.missed, watcher.continuity.repeated) == (0, 1)


def test_a_watch_whose_past_is_gone_begins_anew(api: ApiServer) -> None:
    """After 410 the object is listed again and watched from there; that is the server's right, and no failure."""
    _, recorded = watch(api, "HTTP/1.1", (410,), events=3)
    assert [what for what, _ in recorded].count("list (to watch)") == 2
    assert all(outcome.ok for _, outcome in recorded)
