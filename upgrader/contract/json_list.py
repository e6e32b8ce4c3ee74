"""Reads the JSON of a list while it arrives, an item at a time: a list takes as much memory as its largest item.

A tenant may create pods of 1.5 MiB: a page of 500 of them, read as a whole, is several times the memory that guard has.
For the runner, a page of 500 nodes is 30 MiB as a whole.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["LARGEST_OBJECT_BYTES", "JsonList", "ObjectTooLarge"]

LARGEST_OBJECT_BYTES = 16 << 20
"""Of an object in an answer. etcd stores up to 1.5 MiB of one, of which JSON makes up to six times as much; more only
where its `--max-request-bytes` was raised.
"""
_FIRST_BYTES = 64 << 10
_ENTRY = re.compile(r'\s*[{,]\s*"([^"\\]*)"\s*:\s*')
_AFTER = re.compile(r"\s*[,}]")
_LAST, _NEXT = re.compile(r"\s*\]"), re.compile(r"\s*,?\s*[^\s,\]]")
_END = re.compile(r"\s*\}\s*")


class ObjectTooLarge(ValueError):
    """An item of a list, or what is before the items, has more bytes than are read of one."""

    def __init__(self, most: int) -> None:
        super().__init__(f"an object has more than {most} bytes")


class JsonList:
    """`feed` it with all bytes of an answer, in order, and `end` it."""

    def __init__(self, most: int = LARGEST_OBJECT_BYTES) -> None:
        """`most`: the bytes of an item."""
        self._most = most
        self._decode, self._json = codecs.getincrementaldecoder("utf-8")(), json.JSONDecoder()
        self._text = ""
        self._begun: list[str] = []
        self._size, self._try_at = 0, 0
        self._among_items = False
        self.has_items = False
        """Whether an array of items has begun, be it empty."""
        self._rest: dict[str, Any] = {}

    @property
    def size(self) -> int:
        """How many characters of an object are there whose end isn't."""
        return len(self._text) + self._size

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The items that end in this chunk. Raises ValueError for what is no list, and ObjectTooLarge."""
        text = self._decode.decode(chunk)
        self._begun.append(text)
        self._size += len(text)
        # A large item is tried again only when there is twice as much of it: all tries together cost as much as two.
        if self.size >= self._try_at:
            yield from self._read()
            self._try_at = min(2 * self.size, self._most) if self.size > _FIRST_BYTES else 0
            if self.size >= self._most:
                raise ObjectTooLarge(self._most)

    def end(self) -> Iterator[dict[str, Any]]:
        """The last items. Raises ValueError if the list isn't complete."""
        self._begun.append(self._decode.decode(b"", final=True))
        yield from self._read()
        if self._among_items or not _END.fullmatch(self._text):
            raise ValueError("the list isn't complete")

    @property
    def rest(self) -> dict[str, Any]:
        """All of it but the items; complete at the end."""
        return self._rest

    def _read(self) -> Iterator[dict[str, Any]]:
        text, at = "".join((self._text, *self._begun)), 0
        self._begun.clear()
        self._size = 0
        try:
            while True:
                if self._among_items:
                    found, at = self._item(text, at)
                    if found is not None:
                        yield found
                else:
                    at = self._entry(text, at)
        except (json.JSONDecodeError, _Incomplete):
            self._text = text[at:]

    def _entry(self, text: str, at: int) -> int:
        """Reads what isn't the items, and returns where it ends."""
        entry = _ENTRY.match(text, at)
        if entry is None or entry.end() == len(text):
            raise _Incomplete
        if entry[1] == "items" and text[entry.end()] == "[":
            self._among_items = self.has_items = True
            return entry.end() + 1
        value, end = self._json.raw_decode(text, entry.end())
        if _AFTER.match(text, end) is None:
            raise _Incomplete
        self._rest[entry[1]] = value
        return end

    def _item(self, text: str, at: int) -> tuple[dict[str, Any] | None, int]:
        """An item, and where it ends; None for the end of all."""
        if last := _LAST.match(text, at):
            self._among_items = False
            return None, last.end()
        start = _NEXT.match(text, at)
        if start is None:
            raise _Incomplete
        found, end = self._json.raw_decode(text, start.end() - 1)
        if not isinstance(found, dict):
            raise ValueError("an item isn't an object")
        return found, end


class _Incomplete(Exception):
    """More has to arrive."""
