"""Reads a bundle that anybody may have made: every checksum is compared before anything of it is used."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upgrader.errors import UsageError
from upgrader.model.bundle_index import BundledImages, BundleIndex
from upgrader.model.json_values import from_json
from upgrader.steps.images.bundle.image_archive import image_names
from upgrader.steps.images.bundle.tar_entries import Entry, NotATar, entries

__all__ = ["INDEX", "SUMS", "Bundle", "open_bundle"]

INDEX, SUMS = "bundle.json", "SHA256SUMS"

_NAME = re.compile(r"images/[\w][\w.-]*\.tar|charts(/[\w][\w.@+-]*)+")
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
_MOST_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_REMEDY = "Copy the bundle again from its source, and compare its SHA-256 (sha256sum) with the original's."


@dataclass(frozen=True)
class Bundle:
    """An open bundle whose checksums are right."""

    path: Path
    index: BundleIndex
    _file: int
    _entries: dict[str, Entry]

    def content(self, images: BundledImages) -> Iterator[bytes]:
        """An image archive, piece by piece. Raises UsageError, at its end at the latest, where the file has changed."""
        digest = hashlib.sha256()
        chunks = _chunks(self._file, self._entries[images.file])
        while True:
            try:
                chunk = next(chunks, b"")
            except (NotATar, OSError) as error:
                raise UsageError(
                    f"{self.path}: {images.file} can no longer be read: {error}", remedy=_REMEDY
                ) from error
            if not chunk:
                break
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != images.sha256:
            raise UsageError(f"{self.path}: {images.file} was changed while it was read", remedy=_REMEDY)


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """Open a bundle and compare all checksums. Raises UsageError with file, line and name of what is wrong."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    try:
        yield _verified(path, file)
    except NotATar as error:
        raise UsageError(f"{path} is not a bundle: {error}", remedy=_REMEDY) from error
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    finally:
        os.close(file)


def _verified(path: Path, file: int) -> Bundle:
    found = _found(path, file)
    _compare_sums(path, file, found)
    try:
        index: BundleIndex = from_json(BundleIndex, json.loads(_small(path, file, found, INDEX)), "bundle")
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}: {INDEX}: {error}", remedy="Create the bundle with this version of upgrader."
        ) from error
    listed = {item.file for item in index.files}
    if len(listed) != len(index.files) or listed != found.keys() - {INDEX, SUMS}:
        odd = sorted(listed ^ (found.keys() - {INDEX, SUMS})) or ["a file twice"]
        raise _wrong(path, INDEX, f"it doesn't match the archive's files: {', '.join(odd[:5])}")
    for item in index.files:
        entry = found[item.file]
        if item.size != entry.size or item.sha256 != _sha256(file, entry):
            raise _wrong(path, f"{INDEX}: {item.file}", "its size or SHA-256 differs")
    for images in index.images:
        entry = found[images.file]
        names = image_names(file, entry.offset, entry.size)
        if set(names) != set(images.names):
            raise _wrong(path, f"{INDEX}: {images.file}", f"names {', '.join(images.names)}, has {', '.join(names)}")
    return Bundle(path, index, file, found)


def _found(path: Path, file: int) -> dict[str, Entry]:
    """The entries by name. What is no plain file, or has another name than a bundle's files, is refused."""
    found: dict[str, Entry] = {}
    for entry in entries(file):
        if not entry.is_file:
            raise _wrong(path, repr(entry.name), "it is not a regular file: a bundle has no links, folders or devices")
        if entry.name not in (INDEX, SUMS) and not _NAME.fullmatch(entry.name):
            raise _wrong(path, repr(entry.name), "a bundle has no file of that name")
        if entry.name in found:
            raise _wrong(path, entry.name, "it is there twice")
        found[entry.name] = entry
    return found


def _compare_sums(path: Path, file: int, found: dict[str, Entry]) -> None:
    lines = _small(path, file, found, SUMS).decode(errors="replace").splitlines()
    summed: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise _wrong(path, f"{SUMS}:{number}", "it is not a line in the format of sha256sum")
        if match[2] not in found or match[2] in summed or match[2] == SUMS:
            raise _wrong(
                path, f"{SUMS}:{number}: {match[2]}", "the bundle doesn't contain this file, or lists it twice"
            )
        summed[match[2]] = number, match[1]
    for name, entry in found.items():
        if name == SUMS:
            continue
        if name not in summed:
            raise _wrong(path, SUMS, f"it has no line for {name}")
        number, wanted = summed[name]
        actual = _sha256(file, entry)
        if actual != wanted:
            raise _wrong(path, f"{SUMS}:{number}: {name}", f"its SHA-256 is {actual}, and should be {wanted}")


def _small(path: Path, file: int, found: dict[str, Entry], name: str) -> bytes:
    if name not in found:
        raise _wrong(path, name, "it is missing")
    entry = found[name]
    if entry.size > _MOST_BYTES:
        raise _wrong(path, name, f"it has {entry.size} bytes, more than the allowed {_MOST_BYTES}")
    return os.pread(file, entry.size, entry.offset)


def _sha256(file: int, entry: Entry) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(file, entry):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(file: int, entry: Entry) -> Iterator[bytes]:
    at, end = entry.offset, entry.offset + entry.size
    while at < end:
        chunk = os.pread(file, min(_CHUNK_BYTES, end - at), at)
        if not chunk:
            raise NotATar(f"{entry.name!r} is cut off at byte {at}")
        yield chunk
        at += len(chunk)


def _wrong(path: Path, where: str, what: str) -> UsageError:
    return UsageError(f"{path}: {where}: {what}", remedy=_REMEDY)
