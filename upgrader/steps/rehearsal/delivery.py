"""A cluster's data on its way to the machine that compares both versions on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_pod import SCRATCH
from upgrader.steps.rehearsal.servers import Server

__all__ = ["TAR", "Delivery", "of_member"]

_SEND_SECONDS = 1800.0
_MEASURE_SECONDS = 120.0
TAR = ("--create", "--file=-", "--dereference", "--hard-dereference", "--absolute-names")
"""Only files and folders: also where two of the flags name one file, as by a link."""


@dataclass(frozen=True)
class Delivery:
    """What is delivered: etcd's data, and the files that flags name."""

    use: str
    """What names the unit and the folder there."""
    controller: str
    """The controller's of which the data is."""
    etcd: str
    """The image of etcd."""
    file_count: int
    byte_count: int
    chunks: Iterable[bytes] = field(repr=False)
    """A tar archive of them, as it comes: the data in the folder `scratch`, the files with their absolute paths."""
    snapshot: str = ""
    """The name of the file in `scratch` of which etcd's data is to be made; "": its data itself is there."""
    arrived: Callable[[], None] = lambda: None
    """Called once all is sent."""


class _Outgoing(NamedTuple):
    """What a controller has of what is needed."""

    files: tuple[str, ...]
    """Those that flags name."""
    file_count: int
    """With those of the data."""
    byte_count: int


def of_member(hosts: Hosts, member: EtcdMember, servers: Mapping[str, Server], arrived: Callable[[], None]) -> Delivery:
    """What was restored in the member's work folder, which isn't needed any more once it has `arrived`. It is streamed
    through this process's memory, and never to a disk of this machine. Raises HostUnreachable or HostError.
    """
    found = _outgoing(hosts, member, servers)
    chunks = _streamed(hosts, member, found.files)
    return Delivery(
        member.use, member.host.name, member.image, found.file_count, found.byte_count, chunks, arrived=arrived
    )


def _outgoing(hosts: Hosts, member: EtcdMember, servers: Mapping[str, Server]) -> _Outgoing:
    files = dict.fromkeys(path for server in servers.values() for path in server.files)
    admission = dict.fromkeys(path for server in servers.values() for path in server.admission)
    asked = {
        "data": f"{member.work}/{SCRATCH}",
        "files": list(files),
        "admission": list(admission),
        "sudo": member.host.become,
    }

    def outgoing(answer: dict[str, Any]) -> _Outgoing:
        return _Outgoing(tuple(map(str, answer["files"])), int(answer["file_count"]), int(answer["byte_count"]))

    program = SentProgram("files_to_send", "rehearsal", "the rehearsal's files", _STAY)
    return program.read(hosts, member.host, outgoing, json.dumps(asked), seconds=_MEASURE_SECONDS)


def _streamed(hosts: Hosts, member: EtcdMember, files: Sequence[str]) -> Iterator[bytes]:
    words = (*TAR, f"--directory={member.work}")
    yield from hosts.stream(member.host, ["tar", *words, SCRATCH, *files], timeout_seconds=_SEND_SECONDS)


_STAY = "Nothing was changed. To rehearse on a controller, omit --on."
