"""Where the entries of an uncompressed tar file are. Nothing is unpacked, and no content is read.

`tarfile` would follow what a header says: links, long names, sparse files. A bundle needs none of these.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Entry", "NotATar", "entries"]

_BLOCK = 512
_FILES = (b"0", b"\0")
_MOST_ENTRIES = 100_000


class NotATar(Exception):
    """What is wrong, and at which byte."""


@dataclass(frozen=True)
class Entry:
    """One entry; `is_file` is false for whatever isn't a plain file, `kind` is tar's own byte for what it is."""

    name: str
    offset: int
    """Where its content begins."""
    size: int
    is_file: bool
    kind: bytes


def entries(file: int, first: int = 0, size: int | None = None) -> Iterator[Entry]:
    """The entries of a descriptor's file, in their order; `first` and `size` are those of an archive within.

    Raises NotATar.
    """
    end, at = os.fstat(file).st_size if size is None else first + size, first
    for _ in range(_MOST_ENTRIES):
        header = os.pread(file, min(_BLOCK, max(0, end - at)), at)
        if len(header) < _BLOCK:
            raise NotATar(f"the file ends at byte {at + len(header)}, in the middle of the archive")
        if not header.strip(b"\0"):
            return
        entry = _entry(header, at)
        if entry.offset + entry.size > end:
            raise NotATar(f"{entry.name!r} is cut off: the file ends at byte {end}")
        yield entry
        at = entry.offset + -(-entry.size // _BLOCK) * _BLOCK
    raise NotATar(f"it has more than {_MOST_ENTRIES} entries")


def _entry(header: bytes, at: int) -> Entry:
    if sum(header[:148]) + 8 * 32 + sum(header[156:]) != _number(header[148:156], at):
        raise NotATar(f"the header at byte {at} is damaged")
    name, prefix = _text(header[:100], at), _text(header[345:500], at) if header[257:262] == b"ustar" else ""
    # GNU's own format has times where POSIX has the prefix.
    whole = f"{prefix}/{name}" if prefix and header[257:263] == b"ustar\0" else name
    kind = header[156:157]
    return Entry(whole, at + _BLOCK, _number(header[124:136], at), kind in _FILES, kind)


def _text(field: bytes, at: int) -> str:
    try:
        return field.partition(b"\0")[0].decode()
    except UnicodeDecodeError:
        raise NotATar(f"the header at byte {at} has a name that isn't valid text") from None


def _number(field: bytes, at: int) -> int:
    if field[:1] == b"\x80":  # GNU's form for what eleven octal digits can't hold
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not all(byte in b"01234567" for byte in digits):
        raise NotATar(f"the header at byte {at} has an invalid number")
    return int(digits or b"0", 8)
