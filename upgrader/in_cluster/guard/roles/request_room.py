"""Limits the memory of all requests together: any client that reaches the port can send large and many requests.

Parsed JSON takes more memory than its bytes: each `[]` of a body takes some eighty. One body of 16 MiB made 460 MB of
objects, more than the memory limit of guard's pod, whose end would stop everything that it does. So the memory of each
request is counted while it is read, before it is parsed, and a request is refused if there is no room: then its
failurePolicy decides. One address gets at most half of the memory, and a part is reserved for small requests, so that
uploads without an end don't block others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

__all__ = ["NoRoom", "Room", "Share"]

_MOST_BYTES = 8 << 20
"""Of one body: more than two of the largest objects that API servers accept."""
_ROOM_BYTES = 96 << 20
"""Of the 256 MiB in the chart: several hundred pods that are deleted at once take a third of it."""
_FOR_SMALL_BYTES = 16 << 20
_SMALL_BYTES = 256 << 10
"""Of all memory that a request takes: the review of a pod takes a tenth."""
_VALUE_BYTES = 100
"""The memory of a value as an object, with its key."""


class NoRoom(Exception):
    """Why a request isn't read to its end, in one line."""


class Share:
    """The memory that one request takes."""

    def __init__(self, room: Room, address: str) -> None:
        self._room, self._address, self.taken = room, address, 0

    async def body(self, request: web.Request) -> bytes:
        """The request's body, once there is room for it and for the parsed objects. Raises NoRoom."""
        if coding := request.headers.get("Content-Encoding"):
            raise NoRoom(f"the body has the encoding {coding[:20]!r}, which API servers don't use")
        found = bytearray()
        async for chunk in request.content.iter_any():
            found += chunk
            if len(found) > _MOST_BYTES:
                raise NoRoom(f"the body has more than {_MOST_BYTES} bytes")
            self._take(2 * len(chunk))  # as bytes and as text
        body = bytes(found)
        self._take(_VALUE_BYTES * sum(map(body.count, (b",", b"[", b"{"))))
        return body

    def _take(self, size: int) -> None:
        self._room.take(self._address, size, small=self.taken + size <= _SMALL_BYTES)
        self.taken += size


class Room:
    """The memory of a server for all requests."""

    def __init__(self, most: int = _ROOM_BYTES, for_small: int = _FOR_SMALL_BYTES) -> None:
        """`for_small`: the part that is reserved for small requests."""
        self.most, self._for_small, self.taken = most, for_small, 0
        self._by_address: dict[str, int] = {}

    def take(self, address: str, size: int, *, small: bool) -> None:
        """For a request from this address. Raises NoRoom."""
        theirs = self._by_address.get(address, 0) + size
        if theirs > self.most // 2:
            raise NoRoom("this request, or all from its address together, need too much memory")
        if self.taken + size > self.most - (0 if small else self._for_small):
            raise NoRoom("this request, or all together, need too much memory")
        self._by_address[address] = theirs
        self.taken += size

    @contextmanager
    def share(self, address: str = "") -> Iterator[Share]:
        """A request's share, which is freed at the end of the block."""
        mine = Share(self, address)
        try:
            yield mine
        finally:
            self.taken -= mine.taken
            if mine.taken:
                self._by_address[address] -= mine.taken
                if not self._by_address[address]:
                    del self._by_address[address]
