"""The identity of this machine, the digests of its keys, and how its kernel gives ports and connections away."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from upgrader.onhost.common.questions import read

_KEYS = ("/etc/kubernetes/pki/sa.pub", "/etc/kubernetes/pki/sa.key")
_PORTS = "/proc/sys/net/ipv4/ip_local_"

MIGRATE_REQ = "net.ipv4.tcp_migrate_req"
"""The sysctl (Linux 5.14) by which the queue of a listener that closes moves to another one of the same address."""


def identity(root: str) -> dict[str, Any]:
    """Only digests of keys leave the host: nothing can be signed with them. Lists are empty, and `migrate_req` is None,
    for missing files.
    """
    migrate_req = _text("/proc/sys/" + MIGRATE_REQ.replace(".", "/"))
    return {
        "machine_id": _text(root + "/etc/machine-id"),
        "keys": {path: digest for path, digest in ((path, _digest(root + path)) for path in _KEYS) if digest},
        "ephemeral": [int(number) for number in _text(_PORTS + "port_range").split()],
        "reserved": ranges(_text(_PORTS + "reserved_ports")),
        "migrate_req": int(migrate_req) if migrate_req else None,
    }


def ranges(text: str) -> list[list[int]]:
    """Parses `1-3,7`, the kernel's format."""
    found = [part.partition("-") for part in text.split(",") if part.strip()]
    return [[int(first), int(last or first)] for first, _, last in found]


def _digest(path: str) -> str:
    """The digest of a PEM file's content, independent of its line ends; "" for no file."""
    try:
        return hashlib.sha256(re.sub(rb"\s", b"", read(path))).hexdigest()
    except FileNotFoundError:
        return ""


def _text(path: str) -> str:
    try:
        return read(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
