"""Which images an image archive has: one that `docker save`, `ctr images export` or `skopeo` wrote.

It is read as containerd will read it, or else refused: the one that made it may want both to see different images.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections.abc import Iterator
from typing import Any

from upgrader.model.image_name import digest_in, full_name
from upgrader.steps.images.bundle.tar_entries import Entry, NotATar, entries

__all__ = ["image_names"]

_MOST_BYTES = 4 * 1024 * 1024
_CONTAINERD = "io.containerd.image.name"
_INDEX, _DOCKER = "index.json", "manifest.json"
_LONG_NAME, _EXTENDED = b"L", b"xg"
_RENAMES = (b"path=", b"size=")


def image_names(file: int, first: int = 0, size: int | None = None) -> tuple[str, ...]:
    """The full names under which containerd imports it; `first` and `size` are where it is in the file.

    Raises NotATar for what is no image archive.
    """
    found = _files(file, first, size)
    names: dict[str, None] = {}
    for name, digest in _named(file, found):
        full = full_name(name)
        _prove(file, found, full, digest)
        names[full] = None
    if not names:
        raise NotATar("it lists no image: neither in index.json nor in manifest.json")
    return tuple(names)


def _files(file: int, first: int, size: int | None) -> dict[str, Entry]:
    """The files by their names, which containerd simplifies before it compares them."""
    found: dict[str, Entry] = {}
    for entry in entries(file, first, size):
        if entry.kind == _LONG_NAME or (entry.kind in _EXTENDED and _renames(file, entry)):
            raise NotATar("it has an entry whose header is followed by another name or size")
        if entry.is_file:
            name = posixpath.normpath(entry.name)
            if name in found and name in (_INDEX, _DOCKER):
                raise NotATar(f"it has {name} twice")
            found[name] = entry
    return found


def _renames(file: int, entry: Entry) -> bool:
    content = _small(file, entry)
    return any(key in content for key in _RENAMES)


def _named(file: int, found: dict[str, Entry]) -> Iterator[tuple[str, str]]:
    """Each name, and the digest of what has it; "" where the archive doesn't say."""
    for item in _list(_json(file, found.get(_INDEX)), "manifests"):
        annotations = item.get("annotations")
        name = annotations.get(_CONTAINERD) if isinstance(annotations, dict) else None
        if isinstance(name, str):
            yield name, str(item.get("digest") or "")
    for item in _list({"images": _json(file, found.get(_DOCKER))}, "images"):
        tags = item.get("RepoTags")
        yield from ((tag, "") for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, str))


def _prove(file: int, found: dict[str, Entry], name: str, digest: str) -> None:
    """Raises NotATar where a name with a digest is that of another image: containerd takes an archive's word for it.

    The digest may be that of an index, for all architectures, which the archive has and which lists this one.
    """
    wanted = digest_in(name)
    if wanted in ("", digest):
        return
    index = found.get(f"blobs/{wanted.replace(':', '/')}")
    content = _small(file, index) if index is not None else b""
    if f"sha256:{hashlib.sha256(content).hexdigest()}" == wanted:
        listed = [item.get("digest") for item in _list(_parsed(content, "index"), "manifests")]
        if digest and digest in listed:
            return
    has = digest or "an image without a digest"
    raise NotATar(f"its {name} is {has}, and nothing in the archive proves that both are the same")


def _list(document: Any, key: str) -> list[dict[str, Any]]:
    items = document.get(key) if isinstance(document, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _json(file: int, entry: Entry | None) -> Any:
    return _parsed(_small(file, entry), entry.name) if entry is not None else None


def _small(file: int, entry: Entry) -> bytes:
    if entry.size > _MOST_BYTES:
        raise NotATar(f"its {entry.name} has {entry.size} bytes")
    return os.pread(file, entry.size, entry.offset)


def _parsed(content: bytes, name: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise NotATar(f"its {name} is not JSON") from None
