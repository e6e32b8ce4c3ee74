"""Verifies a backup: every byte of the file, and on request the snapshot on a controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.errors import BackupRefused, UsageError
from upgrader.ports import Age, Hosts
from upgrader.steps.backup.archive import Receive, unpack
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_pod import SNAPSHOT, ReplacedData
from upgrader.steps.backup.etcd_tools import DataSummary, EtcdTools, SnapshotStatus
from upgrader.steps.backup.manifest import SNAPSHOT_PART, BackupManifest, Part

__all__ = ["BackupFile", "prove_on", "send_snapshot"]

_SEND_SECONDS = 3600.0

# Complete, or not there: the size is the manifest's, as `cat` takes a broken connection for the end.
_RECEIVE = """set -eu
umask 077
cat > "$1.part"
[ "$(stat -c %s -- "$1.part")" = "$2" ] || { echo "only a part of the snapshot arrived" >&2; exit 1; }
mv -f -- "$1.part" "$1"
"""


@dataclass(frozen=True)
class BackupFile:
    """A backup on this machine, and the keys that may open it."""

    path: Path
    identities: tuple[str, ...] = field(repr=False)
    age: Age

    def read(self, receive: Receive | None = None) -> BackupManifest:
        """Decrypt all of it, and compare every hash. Raises UsageError, or BackupRefused: nothing in it may be used."""
        try:
            with self.path.open("rb") as file:
                return unpack(self.age.decrypt(file, self.identities), receive)
        except OSError as error:
            raise UsageError(f"{self.path} can't be read: {error.strerror or error}") from error
        except BackupRefused as error:
            remedy = error.remedy or "Use another backup: this one is damaged. Nothing was changed."
            raise BackupRefused(f"{self.path} is refused: {error.message}", remedy=remedy) from error
        except UsageError as error:
            raise UsageError(f"{self.path}: {error.message}", remedy=error.remedy) from error


def send_snapshot(backup: BackupFile, hosts: Hosts, members: Sequence[EtcdMember]) -> BackupManifest:
    """Stream the snapshot to each member's work folder, where it must not be used unless this returns."""
    manifest: BackupManifest | None = None
    for member in members:

        def receive(part: Part, content: Iterator[bytes], to: EtcdMember = member) -> None:
            if part.name == SNAPSHOT_PART:
                command = ["sh", "-c", _RECEIVE, "sh", f"{to.work}/{SNAPSHOT}", str(part.bytes)]
                hosts.run(to.host, command, stdin=content, timeout_seconds=_SEND_SECONDS)

        manifest = backup.read(receive)
    assert manifest is not None, "there is at least one member"
    return manifest


def prove_on(
    member: EtcdMember, manifest: BackupManifest, tools: EtcdTools, replaced: ReplacedData | None = None
) -> tuple[SnapshotStatus, DataSummary]:
    """Restore the snapshot that was sent into a scratch etcd; raises BackupRefused unless it holds what it should."""
    status, data = tools.prove(member, manifest.snapshot.bytes, take=False, replaced=replaced)
    if (data.keys, data.digest, status.hash) != (manifest.keys, manifest.digest, manifest.etcd_hash):
        raise BackupRefused(
            f"{member.host.name}: the restored snapshot has {data.keys} keys with SHA-256 {data.digest}; when it was "
            f"taken, it had {manifest.keys} keys with {manifest.digest}",
            remedy="Use another backup. Nothing was changed.",
        )
    return status, data
