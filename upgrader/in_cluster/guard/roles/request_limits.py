"""Limits the size of an AdmissionReview, and the memory of all requests together: any client that reaches the port can
send large and many requests.

Parsed JSON takes more memory than its bytes: each `[]` of a body takes some eighty. One body of 16 MiB made 460 MB of
objects, more than the memory limit of guard's pod, whose end would stop everything that it does. So the memory of each
request is counted while it is read, before it is parsed, and a request is refused if there is no room: then its
failurePolicy decides. One address gets at most half of the memory. A part of it all, and of each half, is reserved for
small requests: neither uploads without an end nor the reviews of one tenant's large objects, which come from the same
API server as all others, block them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from aiohttp import web

__all__ = ["LARGEST_REVIEW_BYTES", "NoRoom", "Room", "Share"]

LARGEST_REVIEW_BYTES = 10 << 20
"""Of a request's body. etcd stores up to 1.5 MiB of an object, of which JSON makes up to six times as much: `<` is
`\\u003c`.
"""
_ROOM_BYTES = 96 << 20
"""Of the 256 MiB in the chart: several hundred pods that are deleted at once take half of it."""
_FOR_SMALL_BYTES = 16 << 20
_SMALL_BYTES = 256 << 10
"""Of all memory that a request takes: the review of a pod takes less than half."""
_VALUE_BYTES = 100
"""The memory of a list, an object, a string or an entry, at most: a place in the objects that JSON is parsed into."""
_PLACE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\[{]', re.DOTALL)
_BEYOND_LATIN_1, _BEYOND_16_BITS = re.compile(rb"\\u(?!00)"), re.compile(rb"\\u[dD][89abAB]")
_FOUR_BYTES = tuple(bytes((first,)) for first in range(0xF0, 0xF5))


class NoRoom(Exception):
    """Why a request isn't read to its end, in one line."""


class Share:
    """The memory that one request takes."""

    def __init__(self, room: Room, address: str) -> None:
        self._room, self._address, self.taken = room, address, 0

    async def body(self, request: web.Request) -> bytes | bytearray:
        """The request's body, once there is room for it and for the parsed objects. Raises NoRoom."""
        if coding := request.headers.get("Content-Encoding"):
            raise NoRoom(f"the body has the encoding {coding[:20]!r}, which API servers don't use")
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > LARGEST_REVIEW_BYTES:
                raise NoRoom(f"the body has more than {LARGEST_REVIEW_BYTES} bytes")
            self._take(3 * len(chunk))  # as bytes, as text, and as the strings in it
        self._take(2 * (_width(body) - 1) * len(body))
        self._take(_VALUE_BYTES * _places(body, self._room.most // _VALUE_BYTES))
        return body

    def _take(self, size: int) -> None:
        self._room.take(self._address, self.taken, size)
        self.taken += size


class Room:
    """The memory of a server for all requests."""

    def __init__(self, most: int = _ROOM_BYTES, for_small: int = _FOR_SMALL_BYTES) -> None:
        """`for_small`: the part that is reserved for small requests."""
        self.most, self._for_small, self.taken = most, for_small, 0
        self._by_large = 0
        self._by_address, self._by_large_of = Counter[str](), Counter[str]()

    def take(self, address: str, taken: int, size: int) -> None:
        """More memory for a request from this address that has `taken` so much. Raises NoRoom."""
        large, half = _of_large(taken + size) - _of_large(taken), self.most // 2
        theirs, theirs_by_large = self._by_address[address] + size, self._by_large_of[address] + large
        if theirs > half or (large and theirs_by_large > half - self._for_small):
            raise NoRoom("this request, or all from its address together, need too much memory")
        if self.taken + size > self.most or (large and self._by_large + large > self.most - self._for_small):
            raise NoRoom("this request, or all together, need too much memory")
        self._count(address, size, large)

    @contextmanager
    def share(self, address: str = "") -> Iterator[Share]:
        """A request's share, which is freed at the end of the block."""
        mine = Share(self, address)
        try:
            yield mine
        finally:
            self._count(address, -mine.taken, -_of_large(mine.taken))

    def _count(self, address: str, size: int, large: int) -> None:
        self.taken += size
        self._by_large += large
        for counted, its in ((self._by_address, size), (self._by_large_of, large)):
            counted[address] += its
            if not counted[address]:
                del counted[address]


def _of_large(taken: int) -> int:
    """What a request takes of the part that is for large ones: all of it, once it is large."""
    return taken if taken > _SMALL_BYTES else 0


def _width(body: bytearray) -> int:
    """How many bytes Python takes for each character of a string, also of the whole text: as many as for the widest."""
    if any(first in body for first in _FOUR_BYTES) or _BEYOND_16_BITS.search(body):
        return 4
    return 1 if body.isascii() and not _BEYOND_LATIN_1.search(body) else 2


def _places(body: bytearray, most: int) -> int:
    """How many places there are, up to `most`; of a small body, no fewer than there are, as commas in strings count."""
    simple = sum(map(body.count, (b",", b"[", b"{"))) + (body.count(b'"') + 1) // 2
    return simple if simple * _VALUE_BYTES <= _SMALL_BYTES else sum(1 for _ in islice(_PLACE.finditer(body), most))
