"""Which machine this is, whose keys it has, and which ports its kernel gives away."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from upgrader.onhost.common.questions import read

_KEYS = ("/etc/kubernetes/pki/sa.pub", "/etc/kubernetes/pki/sa.key")
_PORTS = "/proc/sys/net/ipv4/ip_local_"


def identity(root: str) -> dict[str, Any]:
    """Of keys only a digest leaves the host: nothing can be signed with it. Lists are empty for what isn't there."""
    return {
        "machine_id": _text(root + "/etc/machine-id"),
        "keys": {path: digest for path, digest in ((path, _digest(root + path)) for path in _KEYS) if digest},
        "ephemeral": [int(number) for number in _text(_PORTS + "port_range").split()],
        "reserved": ranges(_text(_PORTS + "reserved_ports")),
    }


def ranges(text: str) -> list[list[int]]:
    """`1-3,7` as the kernel writes it."""
    found = [part.partition("-") for part in text.split(",") if part.strip()]
    return [[int(first), int(last or first)] for first, _, last in found]


def _digest(path: str) -> str:
    """Of what a PEM file holds, however its lines end; "" for no file."""
    try:
        return hashlib.sha256(re.sub(rb"\s", b"", read(path))).hexdigest()
    except FileNotFoundError:
        return ""


def _text(path: str) -> str:
    try:
        return read(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
