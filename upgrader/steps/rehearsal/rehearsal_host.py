"""A rehearsal on a machine that is no controller, and gets the cluster's data for as long as it takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from upgrader.errors import UpgraderError
from upgrader.model.cluster import Host
from upgrader.onhost.rehearsal.receive import FILES
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Commands
from upgrader.steps.backup.etcd_pod import UNIT_PREFIX
from upgrader.steps.rehearsal.client_requests import NO_REQUESTS, ClientRequests
from upgrader.steps.rehearsal.delivery import Delivery
from upgrader.steps.rehearsal.renewed_lease import renewed_lease
from upgrader.steps.rehearsal.result import Result, result_of
from upgrader.steps.rehearsal.servers import Server
from upgrader.steps.rehearsal.unit import MEMORY_BYTES, UNIT_SECONDS, asked_of, unit_command, unit_name

__all__ = ["RehearsalHost"]

_PLACE = "/var/lib/upgrader-rehearsal"
_SEND_SECONDS = 1800
_READY_SECONDS = 2400.0
"""For three images that are pulled."""
_REMOVE_SECONDS = 180.0
_ENDED_SECONDS = 60.0
"""The same after an error, such as Ctrl-C: the unit ends without that, too."""

# The unit may write there alone, so that the folder has to be there before it.
_IN_FOLDER = ("sh", "-c", 'umask 077 && mkdir -p -- "$1" && shift && exec "$@"', "sh")
_REMOVE = """systemctl stop -- "$1" 2>/dev/null
rm -rf -- "$2" && { [ ! -e "$3" ] || rmdir --ignore-fail-on-non-empty -- "$3"; }"""


@dataclass(frozen=True)
class RehearsalHost:
    """Every method raises HostUnreachable or HostError."""

    hosts: Commands
    host: Host
    note: Callable[[str], None]
    """Told what stays there if an error ends a comparison, and removing fails, too."""
    place: str = _PLACE
    """The folder of all rehearsals' folders there: root's alone."""
    requests: ClientRequests = NO_REQUESTS

    def prepare(self, etcds: Sequence[str], servers: Mapping[str, Server], database_bytes: int) -> None:
        """Remove what an interrupted rehearsal left there, and check what is needed; images that it lacks are pulled.
        `etcds`: images of etcd.

        Nothing of the cluster is there yet.
        """
        images = [*etcds, *(server.image for server in servers.values())]
        asked = {
            "place": self.place,
            "units": UNIT_PREFIX,
            "images": list(dict.fromkeys(images)),
            "memory": MEMORY_BYTES,
            "bytes": 3 * database_bytes,
            "sudo": self.host.become,
        }
        program = SentProgram("ready", "rehearsal", "the rehearsal host", _NEEDS)
        program.answer(self.hosts, self.host, json.dumps(asked), seconds=_READY_SECONDS)

    def compare(self, data: Delivery, servers: Mapping[str, Server]) -> Result:
        """Compare both versions on what is delivered.

        The data is received in the unit, so that it is gone at each end of the unit, however that comes about.
        """
        work = f"{self.place}/{data.use}"
        moved = {name: server.below(f"{work}/{FILES}") for name, server in servers.items()}
        incoming = {"file_count": data.file_count, "byte_count": data.byte_count}
        asked = asked_of(work, data.etcd, moved, self.requests, incoming, data.snapshot)
        seconds = UNIT_SECONDS + _SEND_SECONDS
        inside = (*_IN_FOLDER, work, *unit_command(data.use, work, seconds))
        program = SentProgram("rehearse", "rehearsal", "the rehearsal", _NEEDS, inside)
        result = partial(result_of, data.controller, self.host.name)
        ended = threading.Event()
        try:
            with renewed_lease(self.hosts, self.host, work):
                found = program.read(
                    self.hosts, self.host, result, seconds=seconds + 60.0, secrets=(asked,), given=_given(data, ended)
                )
        except BaseException:
            ended.set()
            try:
                self._remove(data.use, work, _ENDED_SECONDS)
            except UpgraderError as error:  # the one that ended it matters more
                self.note(
                    f"{self.host.name}: {work} may remain for some minutes, with a copy of etcd's data: "
                    f"{error.message}. The rehearsal's systemd unit removes it when it ends; after a power cut, the "
                    "next rehearsal on that host removes it"
                )
            raise
        self._remove(data.use, work, _REMOVE_SECONDS)
        return found

    def _remove(self, use: str, work: str, seconds: float) -> None:
        command = ["sh", "-c", _REMOVE, "sh", unit_name(use), work, self.place]
        self.hosts.run(self.host, command, timeout_seconds=seconds)


def _given(data: Delivery, ended: threading.Event) -> Iterator[bytes]:
    """In another thread: the caller that has ended the comparison removes the data."""
    yield from data.chunks
    if not ended.is_set():
        data.arrived()


_NEEDS = (
    "Nothing was changed. The machine needs systemd, python3, containerd with its program ctr, 2.25 GiB of available "
    "memory, and free disk space. Without a registry, import the images there: ctr -n k8s.io images import FILE. Or "
    "rehearse on a controller, without --on and --here."
)
