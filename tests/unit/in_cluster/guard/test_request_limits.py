"""What whoever reaches the webhooks' port can't do: take all of guard's memory."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest
from aiohttp import ClientSession, web

from tests.unit.in_cluster.guard.test_admission_server import PATH, review
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer, allow
from upgrader.in_cluster.guard.roles.admission_server import admission_app
from upgrader.in_cluster.guard.roles.request_limits import NoRoom, Room
from upgrader.in_cluster.guard.runtime.http_servers import listening
from upgrader.in_cluster.guard.runtime.metrics import Metrics


def serve(test: Callable[[ClientSession, Metrics], Awaitable[None]]) -> None:
    """With a server that allows what it is asked."""

    async def decide(_: AdmissionRequest) -> Answer:
        return allow()

    async def run() -> None:
        metrics = Metrics()
        app = admission_app({PATH: decide}, metrics, timeout_seconds=30)
        async with listening(app, 0) as port, ClientSession(f"http://127.0.0.1:{port}") as client:
            await test(client, metrics)

    asyncio.run(run())


def body(**request: Any) -> bytes:
    """A review that is well-formed."""
    return json.dumps(review(**request)).encode()


@pytest.mark.parametrize(
    ("filling", "status"),
    [
        (b"[" + b"[]," * 500_000 + b"[]]", 413),
        (b"[" + b'{"a":1},' * 600_000 + b"1]", 413),
        (b'"' + b"a" * (11 << 20) + b'"', 413),
        (b'"' + b"a" * (3 << 20) + b'"', 200),
        (b'"' + b"," * 600_000 + b'"', 200),
        (b'"' + b"[{" * 300_000 + b'\\",' * 100_000 + b'"', 200),
        (b'"' + b"\\u003c" * 1_500_000 + b'"', 200),
    ],
    ids=["lists", "objects", "eleven-MiB", "three-MiB", "commas", "brackets", "escapes"],
)
def test_a_body_that_would_take_all_memory_is_not_parsed(filling: bytes, status: int) -> None:
    """One of a few MiB made hundreds of MB of objects. One with the largest object that API servers accept is answered,
    whatever characters its strings have: JSON writes `<` in six bytes.
    """

    async def test(client: ClientSession, metrics: Metrics) -> None:
        whole = body(object={"x": 0}).replace(b'{"x": 0}', b'{"x": %s, "spec": {"replicas": 1}}' % filling)
        answer = await client.post(PATH, data=io.BytesIO(whole))
        assert answer.status == status
        assert ('answer="failed"' in metrics.text()) is (status != 200)
        assert (await client.post(PATH, data=body())).status == 200, "and the next one is answered"

    serve(test)


class Sent:
    """A request of which these bytes have come; unless it ends, the rest never does."""

    def __init__(self, begun: bytes, *, ends: bool = False) -> None:
        self.headers: dict[str, str] = {}
        self.content = self
        self._begun, self._ends = begun, ends

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self._begun
        if not self._ends:
            await asyncio.Event().wait()


def test_bodies_that_are_never_sent_to_their_end_share_one_room() -> None:
    """Who keeps many connections half-way takes no more than the room; it is free again when one of them ends."""

    async def run() -> None:
        room = Room(1500)

        async def read(address: str) -> bytes | bytearray:
            with room.share(address) as share:
                return await share.body(cast(web.Request, Sent(b" " * 200)))

        stalled = [asyncio.ensure_future(read(f"10.0.0.{number % 2}")) for number in range(8)]
        refused, _ = await asyncio.wait(stalled, timeout=0.01)
        assert len(refused) == 6 and all(isinstance(each.exception(), NoRoom) for each in refused)
        assert room.taken == 1200, "each counts three times: as bytes, as text, and as the strings in it"
        for each in stalled:
            each.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)
        assert room.taken == 0

    asyncio.run(run())


def test_one_address_takes_half_of_the_room() -> None:
    """So that uploads from there, which never end, keep nobody else's reviews out."""
    room = Room(1000)
    with room.share("10.0.0.1") as one, room.share("10.0.0.1") as other, room.share("10.0.0.2") as another:
        one._take(400)
        with pytest.raises(NoRoom, match="all from its address"):
            other._take(101)
        other._take(100)
        another._take(500)
    assert room.taken == 0 and room._by_address == {}


def test_a_part_of_the_room_is_for_small_requests() -> None:
    """A review of a pod is answered while large ones from many addresses have taken the rest."""
    room = Room(96 << 20, 16 << 20)
    with room.share("10.0.0.1") as one, room.share("10.0.0.2") as other, room.share("10.0.0.3") as small:
        one._take(32 << 20)
        other._take(32 << 20)
        with room.share("10.0.0.3") as large, pytest.raises(NoRoom, match="all together"):
            large._take(17 << 20)
        small._take(200 << 10)


def test_large_requests_of_one_address_leave_room_for_its_small_ones() -> None:
    """A tenant who has the API server ask about pods of 1.5 MiB, twenty at a time, as dry runs say, keeps no other
    pod's review from being answered: all come from the same address.
    """
    room = Room(96 << 20, 16 << 20)
    with room.share("10.0.0.1") as large, room.share("10.0.0.1") as another, room.share("10.0.0.1") as small:
        large._take(200 << 10)
        large._take(30 << 20)
        another._take(200 << 10)
        with pytest.raises(NoRoom, match="all from its address"):
            another._take(5 << 20)
        for _ in range(60):
            with room.share("10.0.0.1") as each:
                each._take(200 << 10)
        small._take(200 << 10)
    assert room.taken == 0 and room._by_address == {}


@pytest.mark.parametrize(
    ("text", "each"),
    [(b"a", 1), (b"\\u003c", 1), (b"\\u20AC", 2), ("é€".encode(), 2), (b"\\uD83D\\uDE00", 4), ("😀".encode(), 4)],
)
def test_a_wide_character_makes_all_of_them_wide(text: bytes, each: int) -> None:
    """Python keeps a string in the width of its widest character: one emoji makes 8 MiB of text 32 MiB."""

    async def run() -> None:
        body = b'"' + text + b"a" * (1 << 20) + b'"'
        with Room().share() as share:
            await share.body(cast(web.Request, Sent(body, ends=True)))
            assert 0 <= share.taken - len(body) * (1 + 2 * each) <= 200

    asyncio.run(run())


def test_what_is_encoded_is_not_decoded() -> None:
    """API servers send reviews as they are; a few bytes would become many."""

    async def test(client: ClientSession, _: Metrics) -> None:
        headers = {"Content-Encoding": "gzip"}
        answer = await client.post(PATH, data=gzip.compress(b" " * (1 << 20)), headers=headers)
        assert answer.status == 413 and "encoding" in await answer.text()

    serve(test)
