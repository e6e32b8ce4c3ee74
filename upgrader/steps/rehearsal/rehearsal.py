"""Rehearses a plan on the controller that has the data: a snapshot, and two versions of kube-apiserver on copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from upgrader.model.cluster import Host
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_pod import SCRATCH, UNIT_PREFIX
from upgrader.steps.backup.etcd_tools import EtcdTools
from upgrader.steps.backup.source_member import members_to_ask, prove_any
from upgrader.steps.rehearsal.differences import Difference
from upgrader.steps.rehearsal.renewed_lease import renewed_lease
from upgrader.steps.rehearsal.servers import Server

__all__ = ["Rehearsal", "Result"]

_MEMORY_BYTES = 2 << 30
_SECONDS = 1800
"""For all comparisons; what isn't done by then is reported as not compared."""
_UNIT_SECONDS = _SECONDS + 600
"""When its service manager ends it, whatever happens."""


@dataclass(frozen=True)
class Result:
    """What a rehearsal found, and what it did: `counts` of requests by what they were."""

    controller: str
    differences: tuple[Difference, ...]
    counts: dict[str, int]
    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Rehearsal:
    """Every method raises HostUnreachable or HostError."""

    hosts: Hosts
    controllers: tuple[Host, ...]

    def run(self, servers: Mapping[str, Server], note: Callable[[str], None]) -> Result:
        """Leaves nothing on the controllers, and first removes what an interrupted one left."""
        tools = EtcdTools(self.hosts)
        members = members_to_ask("rehearsal", tools, self.controllers, note)
        with ExitStack() as work:
            member, _, data = prove_any("rehearsal", tools, members, work, note)
            note(f"{member.host.name}: comparing both versions on copies of {data.keys:,} keys")
            return self.compare(member, servers)

    def compare(self, member: EtcdMember, servers: Mapping[str, Server]) -> Result:
        """Compare them on the data that was restored in the member's work folder, which is used up."""
        asked = json.dumps(
            {
                "work": member.work,
                "data": SCRATCH,
                "etcd": member.image,
                "servers": {name: asdict(server) for name, server in servers.items()},
                "memory": _MEMORY_BYTES,
                "seconds": _SECONDS,
            }
        )
        program = SentProgram("rehearse", "rehearsal", "the rehearsal", _REMEDY, _unit(member))
        result = partial(_result, member.host.name)
        with renewed_lease(self.hosts, member.host, member.work):
            return program.read(self.hosts, member.host, result, asked, seconds=_UNIT_SECONDS + 60.0)


_REMEDY = (
    "Nothing was changed. Fix what the message says; if the controller lacks the image, `upgrader check --trial` pulls "
    "it. Then rehearse again."
)


def _unit(member: EtcdMember) -> tuple[str, ...]:
    """The command before the program: it runs in a unit that ends with it, whatever becomes of this connection."""
    properties = {
        "PrivateNetwork": "yes",
        "PrivateMounts": "yes",
        "PrivateTmp": "yes",
        "ProtectSystem": "strict",
        "ReadWritePaths": member.work,
        "NoNewPrivileges": "yes",
        "MemoryMax": str(_MEMORY_BYTES),
        "MemorySwapMax": "0",
        "OOMScoreAdjust": "1000",
        "CPUWeight": "10",
        "IOWeight": "10",
        "Nice": "19",
        "RuntimeMaxSec": str(_UNIT_SECONDS),
        "KillSignal": "SIGKILL",  # a kube-apiserver without its etcd doesn't end by SIGTERM; its data is thrown away
        "ExecStopPost": f"/usr/bin/find {member.work} -mindepth 1 -delete",
    }
    words = (
        "systemd-run",
        "--quiet",
        "--collect",
        "--pipe",
        "--wait",
        f"--unit={UNIT_PREFIX}{member.use}.service",
        "--service-type=exec",
    )
    return (*words, *(f"--property={name}={value}" for name, value in properties.items()))


def _result(controller: str, answer: dict[str, Any]) -> Result:
    return Result(
        controller,
        tuple(
            Difference(
                str(each["what"]),
                str(each["resource"]),
                str(each["reason"]),
                int(each["count"]),
                tuple(map(str, each["names"])),
            )
            for each in answer["findings"]
        ),
        {str(name): int(number) for name, number in answer.get("counts", {}).items()},
        float(answer.get("seconds", 0)),
        int(answer.get("peak", 0)),
    )
