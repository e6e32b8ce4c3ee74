"""The objects of a rendered chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from upgrader.model.release import without_revision

__all__ = ["Manifest", "objects_in"]

Manifest = Mapping[str, Any]


def objects_in(manifest: str) -> dict[str, Manifest]:
    """Each object by `Kind namespace/name`, in the manifest's order, without the release's revision."""
    found = {}
    for document in yaml.load_all(without_revision(manifest), Loader=_LOADER):
        if document:
            meta = document["metadata"]
            place = f"{meta['namespace']}/" if meta.get("namespace") else ""
            found[f"{document['kind']} {place}{meta['name']}"] = document
    return found


# libyaml's loader is ten times faster than the pure Python one, and a plan reads nine manifests.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
