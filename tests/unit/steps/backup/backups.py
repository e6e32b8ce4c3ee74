"""A manifest and its archive, as tests of backups need them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

from upgrader.steps.backup.archive import pack
from upgrader.steps.backup.manifest import BackupManifest, Part

SNAPSHOT = b"snapshot " * 9000
FILES = b"files"
CONTENT = {"etcd/snapshot.db": SNAPSHOT, "controllers/controller-1.tar": FILES}
TAKEN = datetime(2026, 11, 23, 13, 4, 33, tzinfo=UTC)


def manifest(content: Mapping[str, bytes] = CONTENT) -> BackupManifest:
    """The manifest of such parts."""
    parts = tuple(Part(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in content.items())
    return BackupManifest(
        taken=TAKEN,
        cluster_uid="uid-1",
        authority="aa",
        kubernetes="v1.36.3",
        etcd="registry.k8s.io/etcd:3.6.8-0",
        member="controller-1",
        revision=1959,
        etcd_hash=7,
        keys=308,
        digest="d1",
        parts=parts,
    )


def archive(of: BackupManifest | None = None) -> bytes:
    """The archive."""
    return b"".join(pack(of or manifest(), lambda part: [CONTENT[part.name][:100], CONTENT[part.name][100:]]))
