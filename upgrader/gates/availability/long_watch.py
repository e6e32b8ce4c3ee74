"""A long watch of one object, as controllers keep it: it continues where the server ended it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from upgrader.gates.availability.api_endpoint import ApiEndpoint
from upgrader.gates.availability.http_clients import BROKEN, Client, FreshClient, Protocols, connect, failed
from upgrader.gates.availability.http_exchange import (
    Attempt,
    BadAnswer,
    Connection,
    Exchange,
    Request,
    described,
    judged,
)
from upgrader.gates.availability.request_encoder import Encoder
from upgrader.gates.availability.retry_policy import Outcome, ask
from upgrader.gates.availability.watch_continuity import Continuity

__all__ = ["LongWatch"]

_RETRY_SECONDS = 0.2
"""How long a watch that could not be started waits before the next try."""
_LENGTH_SECONDS = 600


class LongWatch:
    """Watches one object through one address with one protocol, until it is cancelled."""

    def __init__(
        self,
        endpoint: ApiEndpoint,
        protocol: Protocols,
        collection: str,
        name: str,
        *,
        deadline_seconds: float,
        record: Callable[[str, Outcome, float], None],
    ) -> None:
        """`record` is called with a name, the outcome and the due time of each list, watch and break."""
        self.name = f"watch {protocol}"
        self.continuity = Continuity()
        self.resumed = 0
        self.credentials = endpoint.credentials
        self._encoder = Encoder(endpoint)
        self._protocol: Protocols = protocol
        self._selection = f"{collection}?fieldSelector=metadata.name%3D{name}"
        self._deadline = deadline_seconds
        self._record = record
        self._connection: Connection | None = None
        self._answer: Exchange | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                if not (await self._ready() and await self._began()):
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                await self._follow()
                self.resumed += 1
        finally:
            self.close()

    async def send(self, request: Request, deadline: float) -> Attempt:
        """Try once to start the watch: a successful attempt leaves it open."""
        connection = None
        try:
            async with asyncio.timeout_at(deadline):
                connection = await connect(self._encoder, self._protocol)
                answer = await connection.begin(request)
                attempt = judged(request, answer, b"" if answer.status == 200 else await _whole(answer))
        except BROKEN as error:
            attempt = failed(error, connected=connection is not None, reused=False)
        if attempt.ok and connection is not None:
            self._connection, self._answer = connection, answer
        elif connection is not None:
            connection.close()
        return attempt

    def close(self) -> None:
        """End the watch."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._answer = None

    async def _ready(self) -> bool:
        """Find the version to start from: that of a list, once."""
        if self.continuity.position:
            return True
        outcome = await self._asked(
            "list (to watch)", f"{self._selection}&limit=1", FreshClient(self._encoder.endpoint, self._protocol)
        )
        if not outcome.ok:
            return False
        try:
            self.continuity.begin(_version(_parsed(outcome.body)))
        except BadAnswer as error:
            self._broke(error)
            return False
        return True

    async def _began(self) -> bool:
        parameters = f"watch=1&allowWatchBookmarks=true&timeoutSeconds={_LENGTH_SECONDS}"
        path = f"{self._selection}&{parameters}&resourceVersion={self.continuity.position}"
        return (await self._asked("watch", path, self)).ok

    async def _asked(self, what: str, path: str, client: Client) -> Outcome:
        loop = asyncio.get_running_loop()
        due = loop.time()
        outcome = await ask(
            client,
            Request("GET", path),
            deadline=due + self._deadline,
            monotonic=loop.time,
            sleep=asyncio.sleep,
        )
        self._record(what, outcome, due)
        return outcome

    async def _follow(self) -> None:
        """Take events until the watch ends; if it doesn't end in good order, it has failed."""
        assert self._answer is not None
        loop, rest = asyncio.get_running_loop(), b""
        try:
            while True:
                second = asyncio.timeout(1.0)
                try:
                    async with second:
                        while part := await self._answer.chunk():
                            *lines, rest = (rest + part).split(b"\n")
                            for line in lines:
                                self._take(_parsed(line))
                    break
                except TimeoutError:
                    if not second.expired():
                        raise
                if self.continuity.overdue(loop.time()):
                    raise BadAnswer("the watch is open, but delivers no events")
            if rest:
                raise BadAnswer("the watch ended in the middle of an event")
        except BROKEN as error:
            self._broke(error)
        self.close()

    def _broke(self, error: Exception) -> None:
        self._record("watch", Outcome(False, True, described(error, "watching")), asyncio.get_running_loop().time())

    def _take(self, event: dict[str, Any]) -> None:
        kind, found = event.get("type"), event.get("object") or {}
        if kind == "BOOKMARK":
            self.continuity.passed(_version(found))
        elif kind != "ERROR":
            self.continuity.event(_version(found))
        elif found.get("code") == 410:
            self.continuity.expired()
        else:
            raise BadAnswer(f"the watch failed: {found.get('message')}")


async def _whole(answer: Exchange) -> bytes:
    body = bytearray()
    while part := await answer.chunk():
        body += part
    return bytes(body)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise BadAnswer("the answer is not JSON") from None
    if not isinstance(found, dict):
        raise BadAnswer("the answer is not a JSON object")
    return found


def _version(found: dict[str, Any]) -> int:
    try:
        return int(found["metadata"]["resourceVersion"])
    except (KeyError, TypeError, ValueError):
        raise BadAnswer("the answer has no resource version") from None
