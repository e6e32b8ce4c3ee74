"""The image that this host's etcd had before a change: saved here, so that no other party decides what is restored."""

from __future__ import annotations

import json
import os

from upgrader.contract.durable_files import rewrite
from upgrader.onhost.common.questions import Failed

__all__ = ["agreed", "before", "keep"]

_FILE = "image.json"
_MOST = 8
"""How many images are saved: an earlier run may be undone after a later one has failed."""


def keep(folder: str, old: str, new: str, version: str) -> None:
    """Save the old image on the disk before the manifest gets the new one. `version`: the cluster version, on which all
    members agree, such as `3.6.0`; "" if unknown.
    """
    path = os.path.join(folder, _FILE)
    known = _read(path)
    images, versions = known["before"], known["agreed"]
    images.pop(new, None)  # so that it is the newest
    kept = dict([*images.items(), (new, old)][-_MOST:])
    versions = {image: each for image, each in {**versions, new: version}.items() if image in kept}
    rewrite(path, (json.dumps({"before": kept, "agreed": versions}, indent=1) + "\n").encode())


def before(folder: str, new: str) -> str:
    """The image before this one; "" if no change to it is saved. Raises Failed if that can't be read."""
    return _read(os.path.join(folder, _FILE))["before"].get(new, "")


def agreed(folder: str, new: str) -> str:
    """The cluster version before this image; "" if that isn't saved. Raises Failed."""
    return _read(os.path.join(folder, _FILE))["agreed"].get(new, "")


def _read(path: str) -> dict[str, dict[str, str]]:
    """`before` and `agreed`: image → the saved values."""
    nothing: dict[str, dict[str, str]] = {"before": {}, "agreed": {}}
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return nothing
    try:
        found = json.loads(text)
        return {key: {str(image): str(kept) for image, kept in found[key].items()} for key in nothing}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Failed(f"{path} can't be read: {error}; check it, then remove it") from error
