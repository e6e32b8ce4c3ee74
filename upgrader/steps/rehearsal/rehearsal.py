"""Rehearses a plan: a snapshot is taken on a controller, and two versions of kube-apiserver serve copies of it, there
or on a host of group `rehearsal`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_tools import EtcdTools
from upgrader.steps.backup.source_member import members_to_ask, prove_any
from upgrader.steps.rehearsal.client_requests import NO_REQUESTS, ClientRequests
from upgrader.steps.rehearsal.delivery import of_member
from upgrader.steps.rehearsal.other_machine import refuse_controller
from upgrader.steps.rehearsal.rehearsal_host import RehearsalHost
from upgrader.steps.rehearsal.renewed_lease import renewed_lease
from upgrader.steps.rehearsal.result import Result, result_of
from upgrader.steps.rehearsal.servers import Server
from upgrader.steps.rehearsal.unit import MEMORY_BYTES, UNIT_SECONDS, asked_of, memory_warning, unit_command

__all__ = ["Rehearsal"]

_COPIES = 4
"""Of the database: its snapshot, what is restored of it, and that of each version."""
_SENT_COPIES = 2
"""Where another machine compares."""
_LOGS_BYTES = 256 << 20
"""Of two etcds, each of which allocates a file of 64 MiB for what it writes ahead, and the next one."""
_ROOM_SECONDS = 60.0


@dataclass(frozen=True)
class Rehearsal:
    """Every method raises HostUnreachable or HostError."""

    hosts: Hosts
    controllers: tuple[Host, ...]
    on: Host | None = None
    """The host of group `rehearsal` that compares; None: the controller that has the data."""
    requests: ClientRequests = NO_REQUESTS

    def run(self, servers: Mapping[str, Server], note: Callable[[str], None]) -> Result:
        """Leaves nothing on the hosts, and first removes what an interrupted one left."""
        if self.on:
            refuse_controller(self.hosts, self.controllers, self.on, self.hosts, f"--on {self.on.name}")
        tools = EtcdTools(self.hosts)
        members = members_to_ask("rehearsal", tools, self.controllers, note)
        elsewhere = RehearsalHost(self.hosts, self.on, note, requests=self.requests) if self.on else None
        if elsewhere:
            note(f"{elsewhere.host.name}: checking memory, disk space and images")
            size = max(tools.database_bytes(member) for member in members)
            elsewhere.prepare([member.image for member in members], servers, size)
        members = self._with_room(tools, members, note)
        with ExitStack() as work:
            member, _, data = prove_any("rehearsal", tools, members, work, note)
            if warning := memory_warning(data.keys):
                note(warning)
            if elsewhere:
                note(f"{elsewhere.host.name}: receiving {data.keys:,} keys, and comparing both versions on copies")
                return elsewhere.compare(of_member(self.hosts, member, servers, work.close), servers)
            note(f"{member.host.name}: comparing both versions on copies of {data.keys:,} keys")
            return self.compare(member, servers)

    def _with_room(
        self, tools: EtcdTools, members: Iterable[EtcdMember], note: Callable[[str], None]
    ) -> list[EtcdMember]:
        """Those whose controller has room for all that comes, before anything of it is there. Raises HostError if there
        is none.
        """
        program = SentProgram("room", "rehearsal", "the rehearsal's room", _REMEDY)
        copies, memory = (_SENT_COPIES, 0) if self.on else (_COPIES, MEMORY_BYTES)
        found, problems = list[EtcdMember](), list[HostError]()
        for member in members:
            asked = {
                "folder": member.work_place,
                "bytes": copies * tools.database_bytes(member) + _LOGS_BYTES,
                "memory": memory,
            }
            try:
                program.answer(self.hosts, member.host, json.dumps(asked), seconds=_ROOM_SECONDS)
                found.append(member)
            except HostError as error:
                problems.append(error)
                note(error.message)
        if not found:
            raise problems[0]
        return found

    def compare(self, member: EtcdMember, servers: Mapping[str, Server]) -> Result:
        """Compare them on the data that was restored in the member's work folder, which is used up."""
        asked = asked_of(member.work, member.image, servers, self.requests)
        program = SentProgram("rehearse", "rehearsal", "the rehearsal", _REMEDY, unit_command(member.use, member.work))
        result = partial(result_of, member.host.name, "")
        with renewed_lease(self.hosts, member.host, member.work):
            return program.read(self.hosts, member.host, result, seconds=UNIT_SECONDS + 60.0, secrets=(asked,))


_REMEDY = (
    "Nothing was changed. Fix what the message says; if the controller lacks the image, `upgrader check --trial` pulls "
    "it. Then rehearse again."
)
