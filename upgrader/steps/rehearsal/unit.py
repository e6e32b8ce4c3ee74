"""The systemd unit in which a rehearsal's program runs: it reaches nothing, has limits, and leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import PurePosixPath

from upgrader.steps.backup.etcd_pod import SCRATCH, UNIT_PREFIX
from upgrader.steps.rehearsal.client_requests import ClientRequests
from upgrader.steps.rehearsal.servers import Server

__all__ = ["MEMORY_BYTES", "UNIT_SECONDS", "asked_of", "expected_bytes", "memory_warning", "unit_command", "unit_name"]

MEMORY_BYTES = 2 << 30
_SERVERS_BYTES = 520 << 20
"""Both servers, both etcds and the program, of a cluster without objects."""
_COMPARED_BYTES = 420 << 20
"""More for the objects that are compared at a time, if they are pods of 9 kB; reached by some thousands of keys."""
_COMPARED_KEY_BYTES = 105 << 10
_KEY_BYTES = 3 << 10
"""More of each key, in both etcds. The files that they map aren't counted: the kernel takes their pages back."""
_REHEARSED_SECONDS = 1800
"""For all comparisons; what isn't done by then is reported as not compared."""
UNIT_SECONDS = _REHEARSED_SECONDS + 600
"""When its service manager ends it, whatever happens."""
_BESIDE_PODS = "--slice=-.slice"
"""Its weights count against those of its siblings alone: in system.slice, which has as much as all pods of a host with
two processors, it would have all of that whenever no other service is busy.
"""
_REMOVE_SECONDS = 600
"""How long removing the copies may take."""


def expected_bytes(keys: int) -> int:
    """The most memory that a rehearsal of so many keys takes, by what was measured (docs/benchmarks/rehearsal.md)."""
    return _SERVERS_BYTES + min(_COMPARED_BYTES, keys * _COMPARED_KEY_BYTES) + keys * _KEY_BYTES


def memory_warning(keys: int) -> str:
    """That a rehearsal of so many keys may be killed; "" where its memory is enough."""
    expected = expected_bytes(keys)
    if expected <= MEMORY_BYTES:
        return ""
    return (
        f"{keys:,} keys are expected to need {expected >> 20:,} MiB of memory, and a rehearsal may have "
        f"{MEMORY_BYTES >> 20:,} MiB: it may end without a result"
    )


def unit_name(use: str) -> str:
    """Of the unit of a use."""
    return f"{UNIT_PREFIX}{use}.service"


def unit_command(use: str, work: str, seconds: int = UNIT_SECONDS) -> tuple[str, ...]:
    """The command before the program: it runs in a unit that ends with it, whatever becomes of this connection. It
    may write in the folder `work` alone, which must exist, and is empty afterwards.
    """
    properties = {
        "PrivateNetwork": "yes",
        "PrivateMounts": "yes",
        "PrivateTmp": "yes",
        "ProtectSystem": "strict",
        "ReadWritePaths": work,
        "NoNewPrivileges": "yes",
        # A core would have Secrets, and be written elsewhere. With 0, the kernel still gives it to a program, such as
        # apport, if kernel.core_pattern names one; this byte is too little for a file, and forbids that, too.
        "LimitCORE": "1",
        "MemoryMax": str(MEMORY_BYTES),
        "MemorySwapMax": "0",
        "OOMScoreAdjust": "1000",
        "OOMPolicy": "continue",  # or the unit ends, and with it the program that can say why
        "CPUWeight": "1",
        "IOWeight": "10",  # for the disks whose schedulers know it; `paced_copy` is for all
        "Nice": "19",
        "RuntimeMaxSec": str(seconds),
        "KillSignal": "SIGKILL",  # a kube-apiserver without its etcd doesn't end by SIGTERM; its data is thrown away
        # Or `find` is ended after 90 s, or less on some systems: a busy disk may need longer for some gigabytes.
        "TimeoutStopSec": str(_REMOVE_SECONDS),
        "ExecStopPost": f"/usr/bin/find {work} -mindepth 1 -delete",
    }
    words = ("systemd-run", "--quiet", "--collect", "--pipe", "--wait", f"--unit={unit_name(use)}", _BESIDE_PODS)
    return (*words, "--service-type=exec", *(f"--property={name}={value}" for name, value in properties.items()))


def asked_of(
    work: str,
    etcd: str,
    servers: Mapping[str, Server],
    requests: ClientRequests,
    incoming: Mapping[str, int] | None = None,
    snapshot: str = "",
) -> str:
    """What its program is asked, as `upgrader.onhost.rehearsal.rehearse` reads it. `etcd`: its image. With
    the requests of an audit log, it may be too long for an argument.
    """
    return json.dumps(
        {
            "work": work,
            "unit": unit_name(PurePosixPath(work).name),
            "data": SCRATCH,
            "incoming": incoming,
            "snapshot": snapshot,
            "etcd": etcd,
            "servers": {name: asdict(server) for name, server in servers.items()},
            "requests": requests.asked(),
            "memory": MEMORY_BYTES,
            "seconds": _REHEARSED_SECONDS,
        }
    )
