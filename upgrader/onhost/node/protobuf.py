"""Protobuf's wire format: enough to read messages of strings, integers and other messages, and to write strings.

Everything raises ValueError on a damaged message: garbage never reads as an empty node.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED32: 4, _FIXED64: 8}


class Message:
    """A message that was read; a field that isn't in it has its default. Of a repeated field the last one counts."""

    def __init__(self, data: bytes) -> None:
        self._fields = list(_fields(data))
        self._last = dict(self._fields)

    def __contains__(self, number: int) -> bool:
        return number in self._last

    def text(self, number: int, errors: str = "strict") -> str:
        """A string; `errors` as for `bytes.decode`, "replace" for what only quotes."""
        return _bytes(self._last.get(number, b"")).decode(errors=errors)

    def texts(self, number: int) -> list[str]:
        """A repeated string."""
        return [_bytes(value).decode() for found, value in self._fields if found == number]

    def integer(self, number: int) -> int:
        """A signed number of up to 64 bits."""
        value = self._last.get(number, 0)
        if not isinstance(value, int):
            raise ValueError("a message where a number was expected")
        return value - (1 << 64) if value >> 63 else value

    def message(self, number: int) -> Message:
        """A message within this one."""
        return Message(_bytes(self._last.get(number, b"")))

    def messages(self, number: int) -> list[Message]:
        """A repeated message."""
        return [Message(_bytes(value)) for found, value in self._fields if found == number]

    def map(self, number: int) -> dict[str, str]:
        """A map of strings."""
        return {entry.text(1): entry.text(2) for entry in self.messages(number)}


def encode(number: int, value: bytes | str) -> bytes:
    """A length-delimited field: a string, or a message."""
    content = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | _BYTES) + _number(len(content)) + content


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) in order of appearance; length-delimited values as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"wire type {kind} in field {number}")
        if at + size > len(data):
            raise ValueError(f"field {number} is truncated")
        yield number, data[at : at + size]
        at += size


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message was expected")
    return value


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise ValueError("a number is truncated")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number is too long")
