"""A rehearsal on a host of group `rehearsal`, which gets the cluster's data for as long as it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from upgrader.errors import UpgraderError
from upgrader.model.cluster import Host
from upgrader.onhost.rehearsal.receive import FILES
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_pod import SCRATCH, UNIT_PREFIX
from upgrader.steps.rehearsal.renewed_lease import renewed_lease
from upgrader.steps.rehearsal.result import Result, result_of
from upgrader.steps.rehearsal.servers import Server
from upgrader.steps.rehearsal.unit import MEMORY_BYTES, UNIT_SECONDS, asked_of, unit_command, unit_name

__all__ = ["TAR", "RehearsalHost"]

_PLACE = "/var/lib/upgrader-rehearsal"
_SEND_SECONDS = 1800
_READY_SECONDS = 2400.0
"""For three images that are pulled."""
_MEASURE_SECONDS = 120.0
TAR = ("--create", "--file=-", "--dereference", "--hard-dereference", "--absolute-names")
"""Only files and folders: also where two of the flags name one file, as by a link."""
_REMOVE_SECONDS = 180.0

# The unit may write there alone, so that the folder has to be there before it.
_IN_FOLDER = ("sh", "-c", 'umask 077 && mkdir -p -- "$1" && shift && exec "$@"', "sh")
_REMOVE = """systemctl stop -- "$1" 2>/dev/null
rm -rf -- "$2" && { [ ! -e "$3" ] || rmdir --ignore-fail-on-non-empty -- "$3"; }"""


class _Outgoing(NamedTuple):
    """What a controller has of what is needed."""

    files: tuple[str, ...]
    """Those that flags name."""
    file_count: int
    """With those of the data."""
    byte_count: int


@dataclass(frozen=True)
class RehearsalHost:
    """Every method raises HostUnreachable or HostError."""

    hosts: Hosts
    host: Host
    place: str = _PLACE
    """The folder of all rehearsals' folders there: root's alone."""

    def prepare(self, members: Sequence[EtcdMember], servers: Mapping[str, Server], database_bytes: int) -> None:
        """Remove what an interrupted rehearsal left there, and check what is needed; images that it lacks are pulled.

        Nothing of the cluster is there yet.
        """
        images = [*(member.image for member in members), *(server.image for server in servers.values())]
        asked = {
            "place": self.place,
            "units": UNIT_PREFIX,
            "images": list(dict.fromkeys(images)),
            "memory": MEMORY_BYTES,
            "bytes": 3 * database_bytes,
        }
        program = SentProgram("ready", "rehearsal", "the rehearsal host", _NEEDS)
        program.answer(self.hosts, self.host, json.dumps(asked), seconds=_READY_SECONDS)

    def compare(self, member: EtcdMember, servers: Mapping[str, Server], sent: Callable[[], None]) -> Result:
        """Send what was restored in the member's work folder, and compare both versions on it. `sent` is called, in
        another thread, once the controller's copy isn't needed any more.

        The data is received in the unit, so that it is gone at each end of the unit, however that comes about.
        """
        outgoing, work = self._outgoing(member, servers), f"{self.place}/{member.use}"
        moved = {name: server.below(f"{work}/{FILES}") for name, server in servers.items()}
        incoming = {"file_count": outgoing.file_count, "byte_count": outgoing.byte_count}
        asked = asked_of(work, member.image, moved, incoming)
        seconds = UNIT_SECONDS + _SEND_SECONDS
        inside = (*_IN_FOLDER, work, *unit_command(member.use, work, seconds))
        program = SentProgram("rehearse", "rehearsal", "the rehearsal", _NEEDS, inside)
        result = partial(result_of, member.host.name, self.host.name)
        given = self._given(member, outgoing.files, sent)
        try:
            with renewed_lease(self.hosts, self.host, work):
                found = program.read(self.hosts, self.host, result, asked, seconds=seconds + 60.0, given=given)
        except BaseException:
            with suppress(UpgraderError):  # the error that ended it matters more; the next one cleans up
                self._remove(member.use, work)
            raise
        self._remove(member.use, work)
        return found

    def _outgoing(self, member: EtcdMember, servers: Mapping[str, Server]) -> _Outgoing:
        files = dict.fromkeys(path for server in servers.values() for path in server.files)
        admission = dict.fromkeys(path for server in servers.values() for path in server.admission)
        asked = {"data": f"{member.work}/{SCRATCH}", "files": list(files), "admission": list(admission)}

        def outgoing(answer: dict[str, Any]) -> _Outgoing:
            return _Outgoing(tuple(map(str, answer["files"])), int(answer["file_count"]), int(answer["byte_count"]))

        program = SentProgram("outgoing", "rehearsal", "the rehearsal's files", _STAY)
        return program.read(self.hosts, member.host, outgoing, json.dumps(asked), seconds=_MEASURE_SECONDS)

    def _given(self, member: EtcdMember, files: Sequence[str], sent: Callable[[], None]) -> Iterator[bytes]:
        """Through this process's memory, and never to a disk of this machine."""
        words = (*TAR, f"--directory={member.work}")
        yield from self.hosts.stream(member.host, ["tar", *words, SCRATCH, *files], timeout_seconds=_SEND_SECONDS)
        sent()

    def _remove(self, use: str, work: str) -> None:
        command = ["sh", "-c", _REMOVE, "sh", unit_name(use), work, self.place]
        self.hosts.run(self.host, command, timeout_seconds=_REMOVE_SECONDS)


_NEEDS = (
    "Nothing was changed. A host of group `rehearsal` needs systemd, python3, containerd with its program ctr, "
    "2.25 GiB of available memory, and free disk space. Without a registry, import the images there: ctr -n k8s.io "
    "images import FILE. Or leave --on out, to rehearse on a controller."
)
_STAY = "Nothing was changed. Leave --on out, to rehearse on a controller."
