"""Takes a backup: proven on a controller first, then streamed from there into an encrypted file."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from upgrader.engine.journal.atomic import sync_folder
from upgrader.errors import ApiError, UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.model.settings import BackupSettings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Age, Clock, Hosts, Kind, Kube
from upgrader.steps.backup.archive import pack
from upgrader.steps.backup.encryption import encryption_files
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_pod import SNAPSHOT
from upgrader.steps.backup.etcd_tools import DataSummary, EtcdTools, SnapshotStatus
from upgrader.steps.backup.manifest import SNAPSHOT_PART, BackupManifest, Part, controller_part
from upgrader.steps.backup.source_member import members_to_ask, prove_any
from upgrader.steps.backup.store import PART_SUFFIX, SUFFIX, claim, prune, remove_unfinished
from upgrader.steps.backup.sudo_log import require_no_log

__all__ = ["AUTHORITY", "BackupTaker", "TakenBackup"]

AUTHORITY = "/etc/kubernetes/pki/ca.crt"

_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_STREAM_SECONDS = 3600.0
_FILES_SECONDS = 300.0
_MARGIN_BYTES = 64 << 20

_FILES = "files.tar"
# Files may change, or go, while they are read (1): each is then as it was a moment before or after.
# In tmp are kubeadm's copies of etcd's whole data, one for each of its upgrades.
_COLLECT = """set -u
umask 077
work=$1 && cd -- "$2" || exit 2
set -- --exclude=etc/kubernetes/upgrader/restore --exclude=etc/kubernetes/tmp -- etc/kubernetes "${@:3}"
mkdir -p -m 0700 -- "$work" && chmod 0700 -- "$work" || exit 2
needed=$(( $(du -sbc "$@" | tail -n 1 | cut -f 1) + 268435456 ))
free=$(df --output=avail -B1 -- "$work" | tail -n 1)
[ "$free" -ge "$needed" ] || {
  echo "$free bytes are free at $work, $needed are needed for /etc/kubernetes" >&2
  exit 2
}
tar --create --file "$work/files.tar" "$@"
[ $? -le 1 ]
"""
# Where nothing was collected, neither folder is there: that must not hide why.
_REMOVE = 'rm -rf -- "$1" && { [ ! -e "$2" ] || rmdir --ignore-fail-on-non-empty -- "$2"; }'
_MEASURE = 'set -eu; stat -c %s -- "$1"; sha256sum -- "$1"'


@dataclass(frozen=True)
class TakenBackup:
    """A backup that was taken, and those that were removed for it."""

    path: Path
    bytes: int
    manifest: BackupManifest
    removed: tuple[Path, ...]


@dataclass(frozen=True)
class BackupTaker:
    """Takes backups of one cluster."""

    hosts: Hosts
    kube: Kube
    clock: Clock
    age: Age
    cluster: Cluster
    settings: BackupSettings

    def take(self, note: Callable[[str], None]) -> TakenBackup:
        """Take one, and remove those that are too old or too many. Raises HostError or UsageError."""
        if not self.settings.recipients:
            raise UsageError(
                "backup.recipients in upgrader.yaml is empty: there is no key to encrypt the backup with",
                remedy="Create a key pair with `upgrader backup keygen FILE`, keep FILE where the cluster's other "
                "secrets are, and add the public key: `backup: {recipients: [age1…]}`.",
            )
        for host in self.cluster.controllers:
            controller_part(host.name)  # first: a backup that nobody can read would take the place of older ones
        require_no_log(self.hosts, self.cluster.controllers)
        tools = EtcdTools(self.hosts)
        members = members_to_ask("backup", tools, self.cluster.controllers, note)
        with ExitStack() as work:
            member, status, data = prove_any("backup", tools, members, work, note)
            note(f"{member.host.name}: {data.keys:,} keys at revision {data.revision}, SHA-256 {data.digest[:16]}…")
            snapshot = self._measured(member.host, SNAPSHOT_PART, f"{member.work}/{SNAPSHOT}")
            try:
                files = [self._collected(host, member, note) for host in self.cluster.controllers]
                manifest = self._manifest(member, status, data, (snapshot, *files))
                return self._written(manifest, member, note)
            finally:
                for host in self.cluster.controllers:
                    if host != member.host:
                        self.hosts.run(host, ["sh", "-c", _REMOVE, "sh", member.work, member.work_place])

    def _collected(self, host: Host, member: EtcdMember, note: Callable[[str], None]) -> Part:
        """A controller's files: `/etc/kubernetes` with its checkpoints, and encryption keys from elsewhere."""
        note(f"{host.name}: /etc/kubernetes, checkpoints and encryption keys")
        folder = member.work
        keys = encryption_files(self.hosts, host)
        for path in keys.elsewhere:
            note(
                f"{host.name}: {path} is mounted from another file system: unless it comes from a Secret, it is not "
                "in this backup"
            )
        elsewhere = sorted({key.lstrip("/") for key in keys.there if key.startswith("/") and not _inside(key)})
        self.hosts.run(host, ["bash", "-c", _COLLECT, "bash", folder, "/", *elsewhere], timeout_seconds=_FILES_SECONDS)
        return self._measured(host, controller_part(host.name), f"{folder}/{_FILES}")

    def _measured(self, host: Host, name: str, path: str) -> Part:
        done = self.hosts.run(host, ["sh", "-c", _MEASURE, "sh", path], timeout_seconds=_FILES_SECONDS)
        size, digest, *_ = done.stdout.split()
        return Part(name, int(size), digest)

    def _manifest(
        self, member: EtcdMember, status: SnapshotStatus, data: DataSummary, parts: Sequence[Part]
    ) -> BackupManifest:
        authority = self.hosts.read(member.host, AUTHORITY) or b""
        return BackupManifest(
            taken=self.clock.now(),
            cluster_uid=data.uid or self._uid(),
            authority=hashlib.sha256(authority).hexdigest(),
            kubernetes=self._version(),
            etcd=member.image,
            member=member.host.name,
            revision=data.revision,
            etcd_hash=status.hash,
            keys=data.keys,
            digest=data.digest,
            parts=tuple(parts),
        )

    def _uid(self) -> str:
        """As the API has it, where the namespace is encrypted in etcd; "" where it does not answer."""
        try:
            namespace = self.kube.get(_NAMESPACES, "kube-system")
        except ApiError:
            return ""
        return str(namespace["metadata"].get("uid", "")) if namespace else ""

    def _version(self) -> str:
        try:
            return str(KubernetesVersion.parse(json.loads(self.kube.raw("/version"))["gitVersion"]))
        except (ApiError, UsageError, ValueError, KeyError, TypeError, RecursionError):
            return ""  # a backup is needed most where the API doesn't answer

    def _written(self, manifest: BackupManifest, member: EtcdMember, note: Callable[[str], None]) -> TakenBackup:
        """Write the file: complete and on disk under its name, or not at all."""
        folder = self.settings.folder
        total = sum(part.bytes for part in manifest.parts)
        path = folder / f"{_name(manifest.taken, manifest.kubernetes)}{SUFFIX}"
        unfinished = path.with_name(path.name + PART_SUFFIX)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            claim(folder, manifest.cluster_uid)
            free = shutil.disk_usage(folder).free
            if free < total + _MARGIN_BYTES:
                raise UsageError(
                    f"{folder} has {free >> 20:,} MiB of free space, but {(total + _MARGIN_BYTES) >> 20:,} MiB are "
                    "needed",
                    remedy="Free some space there, or choose another folder (backup.folder).",
                )
            remove_unfinished(folder)
            note(f"writing {path} ({total / (1 << 20):,.1f} MiB)")
            try:
                descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(descriptor, "wb") as file:
                    self.age.encrypt(self._packed(manifest, member), self.settings.recipients, file)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)
            sync_folder(folder)
            removed = prune(
                folder, path, keep=self.settings.keep, max_age_seconds=self.settings.max_age_seconds, now=manifest.taken
            )
        except OSError as error:
            raise UsageError(
                f"{path} can't be written: {error.strerror or error}", remedy="Check backup.folder in upgrader.yaml."
            ) from error
        return TakenBackup(path, path.stat().st_size, manifest, removed)

    def _packed(self, manifest: BackupManifest, member: EtcdMember) -> Iterator[bytes]:
        sources = {SNAPSHOT_PART: (member.host, f"{member.work}/{SNAPSHOT}")}
        for host in self.cluster.controllers:
            sources[controller_part(host.name)] = (host, f"{member.work}/{_FILES}")

        def content(part: Part) -> Iterator[bytes]:
            host, path = sources[part.name]
            return self.hosts.stream(host, ["cat", "--", path], timeout_seconds=_STREAM_SECONDS)

        return pack(manifest, content)


def _inside(path: str) -> bool:
    return posixpath.normpath(path).startswith("/etc/kubernetes/")


def _name(taken: datetime, version: str) -> str:
    return f"{taken:%Y%m%dT%H%M%S}" + (f"-{version}" if version else "")
