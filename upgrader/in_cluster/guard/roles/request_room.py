"""How much memory requests may take together: whoever reaches the port may send what he likes, as often as he likes.

JSON takes more memory than bytes: each `[]` of a body is some eighty. One body of 16 MiB made 460 MB of objects, more
than guard's pod may have, and its end is the end of all that it answers for. So each request says what it takes, as it
is read and before it is parsed, and is refused where there is no room: its failurePolicy decides then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

__all__ = ["NoRoom", "Room", "Share"]

_MOST_BYTES = 8 << 20
"""Of a body: two objects as large as API servers take them, and more."""
_ROOM_BYTES = 96 << 20
"""Of the 256 MiB that the chart gives a pod: several hundred pods that are deleted at once take a third of it."""
_VALUE_BYTES = 100
"""What a value takes as an object, with what it is found by."""


class NoRoom(Exception):
    """Why a request isn't read to its end, in one line."""


class Share:
    """What one request takes."""

    def __init__(self, room: Room) -> None:
        self._room, self.taken = room, 0

    async def body(self, request: web.Request) -> bytes:
        """The request's body, once there is room for it, and for what is made of it. Raises NoRoom."""
        if coding := request.headers.get("Content-Encoding"):
            raise NoRoom(f"the body is encoded ({coding[:20]!r}), as API servers never do")
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
        if self._room.taken + size > self._room.most:
            raise NoRoom("requests take too much memory: this one, or many at once")
        self._room.taken += size
        self.taken += size


class Room:
    """That of a server."""

    def __init__(self, most: int = _ROOM_BYTES) -> None:
        self.most, self.taken = most, 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        """A request's, which is free again at the end of the block."""
        mine = Share(self)
        try:
            yield mine
        finally:
            self.taken -= mine.taken
