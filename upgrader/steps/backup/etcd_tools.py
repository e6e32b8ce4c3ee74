"""Works with etcd's tools on a controller, over SSH; leaves nothing there."""

from __future__ import annotations

import json
import posixpath
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from upgrader.errors import HostError, UpgraderError
from upgrader.model.cluster import Host
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts
from upgrader.steps.backup.etcd_member import ASIDE, MANIFEST, EtcdMember
from upgrader.steps.backup.etcd_pod import POD_PREFIX, SNAPSHOT, STATUS, UNIT_PREFIX, ReplacedData, etcd_pod

__all__ = ["DataSummary", "EtcdTools", "MemberStanding", "SnapshotStatus"]

T = TypeVar("T")

_POD_SECONDS = 900.0
_CLEAN_SECONDS = 180.0
_READ_SECONDS = 900.0
_ANSWER_SECONDS = 60.0
_MARGIN_BYTES = 256 << 20

_MAKE = 'set -eu; umask 077; mkdir -p -m 0700 -- "$1"; chmod 0700 -- "$1"; df --output=avail -B1 -- "$1" | tail -n 1'
_SIZE = 'stat -c %s -- "$1" 2>/dev/null || echo 0'


@dataclass(frozen=True)
class SnapshotStatus:
    """What `etcdutl snapshot status` says of a snapshot."""

    hash: int
    revision: int
    bytes: int
    version: str


@dataclass(frozen=True)
class DataSummary:
    """All that an etcd stores, but for keys with a lease: how many keys, and a SHA-256 over keys and values."""

    keys: int
    digest: str
    revision: int
    uid: str
    """The UID of the namespace kube-system in it; "" where it is missing or encrypted."""
    encrypted: tuple[str, ...] = ()
    """Provider and name of each key with which values are encrypted, as in `aescbc key1`."""


@dataclass(frozen=True)
class MemberStanding:
    """What a member says of itself."""

    healthy: bool
    """Whether it is one of a majority, so that its answers are those of the cluster."""
    revision: int
    """The revision of its own data; 0 if it doesn't report one."""
    said: str


@dataclass(frozen=True)
class EtcdTools:
    """etcd's tools on the controllers. Every method raises HostUnreachable or HostError."""

    hosts: Hosts

    @contextmanager
    def workspace(self, member: EtcdMember, needed: int, note: Callable[[str], None]) -> Iterator[EtcdMember]:
        """The member with an empty work folder and pods of its own, with room for `needed` bytes; removed however it
        ends. What an interrupted backup left is removed first.

        `note` is told what stays if an error ended it, and removing fails too.

        A restore doesn't wait for the lock, and removes all of it. Only what has this use's own name is removed at the
        end, so that this never removes what a restore has made meanwhile.
        """
        own = replace(member, use=secrets.token_hex(4))
        self._refuse_restored(member)
        self.prepare(own, needed)
        try:
            yield own
        except BaseException:
            try:
                self.clean(own)
            except UpgraderError as error:  # the one that ended it matters more
                note(
                    f"{member.host.name}: {own.work} may remain, with a copy of etcd's data: {error.message}. The next "
                    "backup, rehearsal or restore removes it"
                )
            raise
        self.clean(own)

    def remove_leftovers(self, member: EtcdMember) -> None:
        """Remove what any use has left. Raises HostError while a restore has stopped the member."""
        self._refuse_restored(member)
        self.clean(replace(member, use=""))

    def _refuse_restored(self, member: EtcdMember) -> None:
        """The restore's new data is in the place of all uses, and nowhere else."""
        files = (self.hosts.read(member.host, path) for path in (MANIFEST, ASIDE))
        if [content is None for content in files] == [True, False]:
            raise HostError(
                f"{member.host.name}: a restore has stopped etcd, and has not started it again: its manifest was "
                f"moved to {ASIDE}",
                remedy="Wait for the restore, or run it again if it was interrupted.",
            )

    def prepare(self, member: EtcdMember, needed: int) -> None:
        """Make the empty work folder, with room for `needed` bytes. What any use has left is removed first."""
        self.clean(replace(member, use=""))
        free = int(self.hosts.run(member.host, ["sh", "-c", _MAKE, "sh", member.work]).stdout)
        if free < needed + _MARGIN_BYTES:
            self.clean(member)
            raise HostError(
                f"{member.host.name}: {member.data_dir} has {_mib(free)} of free space, but "
                f"{_mib(needed + _MARGIN_BYTES)} are needed; nothing was changed",
                remedy="Free some space on that disk, or defragment etcd (etcdctl defrag).",
            )

    def stop_control_plane(self, host: Host) -> list[str]:
        """Stop etcd, kube-apiserver and all that would start it; the kubelet must be stopped. Returns the pods."""

        def stopped(answer: dict[str, Any]) -> list[str]:
            return [str(name) for name in answer.get("stopped", ())]

        return self._program(host, "stop_control_plane", stopped, seconds=_CLEAN_SECONDS)

    def clean(self, member: EtcdMember, *, keep_folder: bool = False) -> None:
        """End the units and pods of the member's use, and remove its folder; those of all, if it has none."""
        folders = ("", "") if keep_folder else (member.work, member.work_place if member.use else "")
        words = (POD_PREFIX + member.use, UNIT_PREFIX + member.use, *folders)
        self._program(member.host, "remove_leftovers", dict, *words, seconds=_CLEAN_SECONDS)

    def database_bytes(self, member: EtcdMember) -> int:
        """How large the member's database is; 0 where it has none."""
        path = f"{member.data_dir}/member/snap/db"
        return int(self.hosts.run(member.host, ["sh", "-c", _SIZE, "sh", path]).stdout)

    def standing(self, member: EtcdMember) -> MemberStanding:
        """Whether the member works with the others."""

        def standing(answer: dict[str, Any]) -> MemberStanding:
            return MemberStanding(answer["healthy"] is True, int(answer["revision"]), str(answer["said"]))

        return self._program(member.host, "ask_member", standing, seconds=_ANSWER_SECONDS)

    def reported_revision(self, member: EtcdMember) -> int:
        """The revision of the member's own data; 0 if it doesn't answer, as its data may be what was lost."""
        try:
            return self.standing(member).revision
        except HostError:
            return 0

    def prove(
        self, member: EtcdMember, size: int, *, take: bool, replaced: ReplacedData | None = None
    ) -> tuple[SnapshotStatus, DataSummary]:
        """Restore the snapshot (`take`: after taking it) into a scratch etcd, and read all of it.

        `replaced`: make a member's new data of it as well.
        """
        name = POD_PREFIX + (member.use or secrets.token_hex(4))
        path = posixpath.join(posixpath.dirname(MANIFEST), f"{name}.json")
        manifest = etcd_pod(member, name, snapshot_bytes=size, take=take, replaced=replaced)
        self.hosts.write(member.host, path, manifest)
        words = (name, "etcd", str(_POD_SECONDS))
        log = self._program(member.host, "await_pod", _status_log, *words, seconds=_POD_SECONDS + 30)
        status = _status(member, log)
        summary = self.read(member, f"{member.work}/etcd.sock")
        self.clean(member, keep_folder=True)
        return status, summary

    def read(
        self, member: EtcdMember, socket: str = "", *, revision: int = 0, seconds: float = _ANSWER_SECONDS
    ) -> DataSummary:
        """All that an etcd stores at a revision (0: now); `socket` "": the member itself.

        It is waited for at most that many seconds.
        """
        words = (socket, str(revision), str(seconds))
        return self._program(member.host, "read_etcd", _summary, *words, seconds=_READ_SECONDS)

    def _program(
        self, host: Host, module: str, decode: Callable[[dict[str, Any]], T], *words: str, seconds: float
    ) -> T:
        tool = SentProgram(module, "backup", "its etcd", partial(_remedy, host))
        return tool.read(self.hosts, host, decode, *words, seconds=seconds)


def _remedy(host: Host, failed: str) -> str:
    if "etcdutl" in failed and ("not found" in failed or "no such file" in failed):
        return f"etcd's image on {host.name} has no etcdutl: use an image of etcd 3.5 or later, as kubeadm does."
    return f"On {host.name}: journalctl -u kubelet, crictl ps -a; then run the command again."


def _status_log(answer: dict[str, Any]) -> str:
    return str(answer["logs"].get(STATUS, ""))


def _summary(answer: dict[str, Any]) -> DataSummary:
    keys, digest, revision, uid = (answer[name] for name in ("keys", "digest", "revision", "uid"))
    return DataSummary(int(keys), str(digest), int(revision), str(uid), tuple(map(str, answer.get("encrypted", ()))))


def _status(member: EtcdMember, log: str) -> SnapshotStatus:
    for line in log.splitlines():
        try:
            found = json.loads(line)
            return SnapshotStatus(
                int(found["hash"]), int(found["revision"]), int(found["totalSize"]), str(found.get("version", ""))
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    raise HostError(
        f"{member.host.name}: etcdutl reported no status of the snapshot {SNAPSHOT}: {log[-500:] or 'no output'}",
        remedy="Run the command again.",
    )


def _mib(size: int) -> str:
    return f"{max(size, 0) / (1 << 20):,.0f} MiB"
