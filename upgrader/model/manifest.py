"""The objects of a rendered chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from upgrader.model.go_yaml import documents
from upgrader.model.release import without_revision

__all__ = ["Manifest", "objects_in"]

Manifest = Mapping[str, Any]


def objects_in(manifest: str) -> dict[str, Manifest]:
    """Each object by `Kind namespace/name`, in the manifest's order, without the release's revision; lists unpacked."""
    return dict(_objects(without_revision(manifest)))


@lru_cache(maxsize=64)
def _objects(manifest: str) -> Mapping[str, Manifest]:
    """Checks, steps and gates ask dozens of questions about each manifest of a run: it is parsed once."""
    found = {}
    for document in documents(manifest):
        for item in _single(document) if document else ():
            meta = item.get("metadata") or {}
            place = f"{meta['namespace']}/" if meta.get("namespace") else ""
            found[f"{item.get('kind')} {place}{meta.get('name') or meta.get('generateName') or ''}"] = item
    return found


def _single(document: Manifest) -> Iterator[Manifest]:
    """The objects of a list, including lists in it: Helm applies each of them."""
    kind = str(document.get("kind"))
    if kind.endswith("List") and "items" in document:
        for item in document["items"] or ():
            own = (
                {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
            )
            yield from _single({**own, **item})
    else:
        yield document
