"""A rehearsal of a backup, on a machine that is no controller: no controller takes a snapshot for it."""

from __future__ import annotations

import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from upgrader.errors import BackupRefused, HostError
from upgrader.model.cluster import Host
from upgrader.onhost.rehearsal.files_to_send import names_files
from upgrader.ports import Hosts
from upgrader.steps.backup.archive import ChunkReader, archive_end, entry
from upgrader.steps.backup.etcd_member import read_member
from upgrader.steps.backup.etcd_pod import SCRATCH, SNAPSHOT
from upgrader.steps.backup.manifest import SNAPSHOT_PART, BackupManifest, Part, controller_part
from upgrader.steps.backup.verify import BackupFile
from upgrader.steps.rehearsal.delivery import Delivery
from upgrader.steps.rehearsal.other_machine import refuse_controller
from upgrader.steps.rehearsal.rehearsal_host import RehearsalHost
from upgrader.steps.rehearsal.result import Result
from upgrader.steps.rehearsal.servers import Server
from upgrader.steps.rehearsal.unit import memory_warning

__all__ = ["BackupRehearsal"]

_MOST_BYTES = 1 << 20
"""Of a file that a flag names."""
_ANOTHER = "Take a new backup. Or, to rehearse on a controller, omit --here. Nothing was started."


@dataclass(frozen=True)
class _Read:
    """A backup, all of whose hashes match, and those of its files that flags name."""

    manifest: BackupManifest
    files: Mapping[str, bytes] = field(repr=False)
    """By the absolute path on the controller."""


@dataclass(frozen=True)
class BackupRehearsal:
    """Every method raises HostError, UsageError, or BackupRefused."""

    backup: BackupFile
    cluster_uid: str
    """This cluster's."""
    hosts: Hosts
    """Reach the controllers."""
    controllers: Sequence[Host]
    machine: RehearsalHost
    note: Callable[[str], None]

    def run(self, servers: Mapping[str, Server]) -> tuple[Result, datetime]:
        """What is found, and when the backup was taken: nothing newer was rehearsed. Leaves nothing on the machine."""
        name = self.machine.host.name
        refuse_controller(self.hosts, self.controllers, self.machine.host, self.machine.hosts, "--here")
        self.note(f"{name}: reading the backup")
        read = self._read(servers)
        manifest = read.manifest
        self._refuse_others(manifest)
        self.note(f"{name}: checking memory, disk space and images")
        if warning := memory_warning(manifest.keys):
            self.note(warning)
        self.machine.prepare((manifest.etcd,), servers, manifest.snapshot.bytes)
        self.note(f"{name}: comparing both versions on copies of {manifest.keys:,} keys, as of {manifest.taken:%F %R}")
        return self._compared(read, servers), manifest.taken

    def _read(self, servers: Mapping[str, Server]) -> _Read:
        """First, and all of it: what of it is used later is authentic then."""
        wanted = {path for server in servers.values() for path in server.files}
        found: dict[str, dict[str, bytes]] = {}

        def receive(part: Part, content: Iterator[bytes]) -> None:
            if part.name != SNAPSHOT_PART:
                found[part.name] = dict(_files(part, content, wanted))

        manifest = self.backup.read(receive)
        files = found.get(controller_part(manifest.member), {})
        if missing := sorted(wanted - files.keys()):
            raise BackupRefused(
                f"{self.backup.path} lacks files of {manifest.member} that kube-apiserver's flags name: "
                f"{', '.join(missing)}. A backup has only files of /etc/kubernetes, and encryption configurations",
                remedy=_ANOTHER,
            )
        admission = {path for server in servers.values() for path in server.admission}
        for path in sorted(admission):
            if names_files(files[path].decode(errors="replace")):
                raise BackupRefused(
                    f"{path} names other files, which only a rehearsal on a controller can read",
                    remedy="To rehearse on a controller, omit --here. Nothing was started.",
                )
        return _Read(manifest, files)

    def _refuse_others(self, manifest: BackupManifest) -> None:
        """Anyone who knows the public key can write a backup: its etcd is started only if a controller has it, too."""
        if manifest.cluster_uid != self.cluster_uid:
            raise BackupRefused(
                f"{self.backup.path} was taken from cluster {manifest.cluster_uid or 'unknown'}, not from this "
                f"cluster, {self.cluster_uid}; nothing was started",
                remedy="Check the folder and the file.",
            )
        images = dict.fromkeys(self._etcds())
        if manifest.etcd not in images:
            raise BackupRefused(
                f"{self.backup.path} was taken from etcd {manifest.etcd}, but the controllers run "
                f"{', '.join(images) or 'none'}",
                remedy=_ANOTHER,
            )

    def _etcds(self) -> Iterator[str]:
        for host in self.controllers:
            try:
                yield read_member(self.hosts, host).image
            except HostError as error:
                self.note(error.message)

    def _compared(self, read: _Read, servers: Mapping[str, Server]) -> Result:
        """While the backup is read again: its snapshot is never on this machine in plain text before its unit is."""
        results = list[Result]()

        def receive(part: Part, content: Iterator[bytes]) -> None:
            if part == read.manifest.snapshot:
                results.append(self.machine.compare(_delivery(read, content), servers))

        if self.backup.read(receive) != read.manifest:
            raise BackupRefused(f"{self.backup.path} was replaced by another backup in the meantime", remedy=_ANOTHER)
        return results[0]


def _delivery(read: _Read, snapshot: Iterator[bytes]) -> Delivery:
    manifest, at = read.manifest, int(read.manifest.taken.timestamp())
    files = (entry(path, len(content), at, [content]) for path, content in read.files.items())
    data = entry(f"{SCRATCH}/{SNAPSHOT}", manifest.snapshot.bytes, at, snapshot)
    size = manifest.snapshot.bytes + sum(map(len, read.files.values()))
    return Delivery(
        use=secrets.token_hex(4),
        controller=manifest.member,
        etcd=manifest.etcd,
        file_count=len(read.files) + 1,
        byte_count=size,
        chunks=chain(chain.from_iterable(files), data, (archive_end(),)),
        snapshot=SNAPSHOT,
    )


def _files(part: Part, content: Iterator[bytes], wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    """Of a controller's files, those that are wanted."""
    try:
        with tarfile.open(fileobj=ChunkReader(content), mode="r|") as archive:
            for each in archive:
                path = f"/{each.name}"
                if path not in wanted:
                    continue
                file = archive.extractfile(each) if each.isreg() and not each.issparse() else None
                if file is None or each.size > _MOST_BYTES:
                    raise BackupRefused(
                        f"{path} in {part.name} is not a regular file of at most {_MOST_BYTES >> 20} MiB; a "
                        "link is not followed",
                        remedy=_ANOTHER,
                    )
                yield path, file.read()
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise BackupRefused(f"{part.name} is not a tar archive: {error}") from error
