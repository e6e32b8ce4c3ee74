"""Helm's records of all releases in a cluster.

Helm's own client would be one process for each release; its records are Secrets, which one list can read. Anyone with
the right to create Secrets can write a record, so its format is not trusted.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.ports import Kube, KubeObject

__all__ = ["ReleaseRecord", "deployed_releases"]

_DEPLOYED = "owner=helm,status=deployed"
_AT_ONCE = 5
"""Records in one answer, which has ten seconds: each is at most 1 MiB, as every Secret, and a third longer there."""
_UNPACKED_BYTES = 64 << 20
_MOST_VALUES = 500_000
"""Each takes some eighty bytes and more, and `[],` is one in three: 100 KB of Secret made 1.7 GB of objects."""
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A text that never ends is one up to the end: nothing is tried twice."""
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class ReleaseRecord:
    """A deployed revision of a release; `manifest` is None where the record can't be read.

    There may be several of one release, after Helms that were killed: Helm goes by the one with the highest `revision`.
    """

    name: str
    namespace: str
    revision: int
    manifest: str | None


def deployed_releases(kube: Kube) -> Iterator[ReleaseRecord]:
    """Every release whose record is a Secret, Helm's default; ConfigMaps and SQL aren't read. Raises ApiError."""
    for secret in kube.each(SECRETS, labels=_DEPLOYED, at_once=_AT_ONCE):
        meta = secret["metadata"]
        labels = meta.get("labels") or {}
        revision = str(labels.get("version") or "")
        number = int(revision) if revision.isascii() and revision.isdigit() else 0
        yield ReleaseRecord(labels.get("name") or meta["name"], meta["namespace"], number, _manifest(secret))


def _manifest(secret: KubeObject) -> str | None:
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        unpacking = zlib.decompressobj(_GZIP)
        text = unpacking.decompress(packed, _UNPACKED_BYTES)
        record: Any = None if _values(text) > _MOST_VALUES else json.loads(text.decode())  # UTF-8 is what was counted
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error):
        return None
    manifest = record.get("manifest") if isinstance(record, dict) else None
    return manifest if isinstance(manifest, str) else None


def _values(text: bytes) -> int:
    """How many values the JSON has at most; a manifest is one, however many commas it has."""
    return sum(map(_TEXTS.sub(b"", text).count, (b",", b"[", b"{")))
