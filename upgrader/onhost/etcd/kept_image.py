"""Which image this host's etcd had before a change: kept here, as nobody else may say what is put back."""

from __future__ import annotations

import json
import os

from upgrader.contract.durable_files import rewrite
from upgrader.onhost.common.questions import Failed

__all__ = ["agreed", "before", "keep"]

_FILE = "image.json"
_MOST = 8
"""How many images are kept: an earlier run may be undone after a later one has failed."""


def keep(folder: str, old: str, new: str, version: str) -> None:
    """Keep the old image, on the disk, before the manifest gets the new one.

    `version`: on which one all members have agreed by now, such as `3.6.0`; "" where that isn't known.
    """
    path = os.path.join(folder, _FILE)
    known = _read(path)
    images, versions = known["before"], known["agreed"]
    images.pop(new, None)  # so that it is the newest
    kept = dict([*images.items(), (new, old)][-_MOST:])
    versions = {image: each for image, each in {**versions, new: version}.items() if image in kept}
    rewrite(path, (json.dumps({"before": kept, "agreed": versions}, indent=1) + "\n").encode())


def before(folder: str, new: str) -> str:
    """What was there before this image; "" where no change to it is kept. Raises Failed where it can't be read."""
    return _read(os.path.join(folder, _FILE))["before"].get(new, "")


def agreed(folder: str, new: str) -> str:
    """On which version all members had agreed before this image; "" where that isn't kept. Raises Failed."""
    return _read(os.path.join(folder, _FILE))["agreed"].get(new, "")


def _read(path: str) -> dict[str, dict[str, str]]:
    """`before` and `agreed`: image → what is kept of it."""
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
        raise Failed(f"{path} can't be read: {error}; look at it, then remove it") from error
