"""What a backup says of itself: its first entry, written after everything in it was proven."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from upgrader.errors import BackupRefused, UsageError

__all__ = ["FORMAT", "SNAPSHOT_PART", "BackupManifest", "Part", "controller_part"]

FORMAT = 1

SNAPSHOT_PART = "etcd/snapshot.db"

_CONTROLLER = "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
"""The inventory's name, which needn't be one of Kubernetes'."""
_NAME = re.compile(rf"etcd/snapshot\.db|controllers/{_CONTROLLER}\.tar")
_HEX = re.compile(r"[0-9a-f]{64}")


def controller_part(name: str) -> str:
    """The part with a controller's files. Raises UsageError for a name with which no reader would take it."""
    part = f"controllers/{name}.tar"
    if not _NAME.fullmatch(part):
        raise UsageError(
            f"controllers with such a name can't be backed up: {name!r}",
            remedy="Use its node's name in the inventory: letters, digits, dots, dashes and underscores.",
        )
    return part


@dataclass(frozen=True)
class Part:
    """A file in a backup."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class BackupManifest:
    """Whose data it is, of when, and what it was proven to be when it was taken."""

    taken: datetime
    cluster_uid: str
    """The UID of the namespace kube-system."""
    authority: str
    """SHA-256 of the cluster's CA certificate, which a cluster keeps that has lost its data."""
    kubernetes: str
    """The API server's version; "" where it did not answer."""
    etcd: str
    """The image of etcd."""
    member: str
    """The controller that the snapshot was taken on."""
    revision: int
    etcd_hash: int
    """As `etcdutl snapshot status` has it."""
    keys: int
    """Without those with a lease."""
    digest: str
    """SHA-256 of all those keys and their values, read from a scratch etcd that was restored from the snapshot."""
    parts: tuple[Part, ...]

    def encode(self) -> bytes:
        """As JSON."""
        content = {"format": FORMAT, **asdict(self), "taken": self.taken.isoformat(timespec="seconds")}
        return json.dumps(content, indent=2).encode() + b"\n"

    @staticmethod
    def decode(content: bytes) -> BackupManifest:
        """Read it; raises BackupRefused. Nothing in it is trusted: a part's name is one that a backup has."""
        try:
            found: dict[str, Any] = json.loads(content)
            if found["format"] != FORMAT:
                raise BackupRefused(
                    f"it has format {found['format']}, and this upgrader reads format {FORMAT}",
                    remedy="Use the upgrader that took it, or a newer one.",
                )
            parts = tuple(Part(str(p["name"]), int(p["bytes"]), str(p["sha256"])) for p in found["parts"])
            made = BackupManifest(
                taken=_time(str(found["taken"])),
                cluster_uid=str(found["cluster_uid"]),
                authority=str(found["authority"]),
                kubernetes=str(found["kubernetes"]),
                etcd=str(found["etcd"]),
                member=str(found["member"]),
                revision=int(found["revision"]),
                etcd_hash=int(found["etcd_hash"]),
                keys=int(found["keys"]),
                digest=str(found["digest"]),
                parts=parts,
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise BackupRefused(f"its manifest can't be parsed: {type(error).__name__}: {error}") from error
        names = [part.name for part in parts]
        sound = all(_NAME.fullmatch(p.name) and p.bytes >= 0 and _HEX.fullmatch(p.sha256) for p in parts)
        if not sound or len(set(names)) != len(names) or SNAPSHOT_PART not in names:
            raise BackupRefused(f"its manifest lists unknown parts: {', '.join(names)[:200]}")
        return made

    @property
    def snapshot(self) -> Part:
        """The snapshot of etcd."""
        return next(part for part in self.parts if part.name == SNAPSHOT_PART)


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"its time, {text}, has no time zone")
    return found
