"""Which images an image archive has: one that `docker save`, `ctr images export` or `skopeo` wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from upgrader.bundle.tar_entries import Entry, NotATar, entries
from upgrader.model.image_name import full_name

__all__ = ["image_names"]

_MOST_BYTES = 4 * 1024 * 1024
_CONTAINERD = "io.containerd.image.name"


def image_names(file: int, first: int = 0, size: int | None = None) -> tuple[str, ...]:
    """The full names under which containerd imports it; `first` and `size` are where it is in the file.

    Raises NotATar for what is no image archive.
    """
    found = {entry.name.removeprefix("./"): entry for entry in entries(file, first, size) if entry.is_file}
    names = dict.fromkeys(full_name(name) for name in _names(file, found))
    if not names:
        raise NotATar("it names no image: neither index.json nor manifest.json does")
    return tuple(names)


def _names(file: int, found: dict[str, Entry]) -> Iterator[str]:
    for item in _list(_json(file, found.get("index.json")), "manifests"):
        annotations = item.get("annotations")
        name = annotations.get(_CONTAINERD) if isinstance(annotations, dict) else None
        if isinstance(name, str):
            yield name
    for item in _list({"images": _json(file, found.get("manifest.json"))}, "images"):
        tags = item.get("RepoTags")
        yield from (tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, str))


def _list(document: Any, key: str) -> list[dict[str, Any]]:
    items = document.get(key) if isinstance(document, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _json(file: int, entry: Entry | None) -> Any:
    if entry is None:
        return None
    if entry.size > _MOST_BYTES:
        raise NotATar(f"its {entry.name} has {entry.size} bytes")
    try:
        return json.loads(os.pread(file, entry.size, entry.offset))
    except (ValueError, RecursionError):
        raise NotATar(f"its {entry.name} is no JSON") from None
