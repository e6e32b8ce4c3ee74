"""A place on a lab's network for a machine that isn't the lab's: the operator's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upgrader.lab.spec import Placement

__all__ = ["operators_address", "operators_network"]


def operators_address(placement: Placement) -> str:
    """The address of that machine."""
    return f"{placement.gateway.rpartition('.')[0]}.3"


@contextmanager
def operators_network(placement: Placement) -> Iterator[Path]:
    """A network namespace with that address alone, as a path; removed at the end. Needs root."""
    name = f"{placement.prefix}-op"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"v-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", f"v-{name}", "master", placement.prefix, "up")
        _ip("-netns", name, "address", "add", f"{operators_address(placement)}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _ip("-netns", name, "link", "set", interface, "up")
        yield Path("/run/netns") / name
    finally:
        _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
