"""All facts of this host, as one line of JSON on standard output."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from upgrader.node.inventory import Inventory
from upgrader.recover.onhost import api, containers, etcd, generations, machine
from upgrader.recover.onhost.probe import together

_SECONDS = 9.0
_PORT = 6443
"""Where kube-apiserver usually listens."""


def facts(root: str) -> dict[str, Any]:
    """What is so on this host; `root` stands before every path (empty on a real one)."""
    taken, begun = time.time(), time.monotonic()
    socket = containers.socket_path(root)
    runtime = containers.runtime(socket)
    disk = Inventory(Path(root + "/etc/kubernetes"))
    service = "crio" if socket.endswith("crio.sock") else "containerd"
    found = together(
        {
            "booted": machine.booted,
            "kubelet": lambda: machine.unit("kubelet"),
            "containerd": lambda: machine.unit(service),
            "complaints": containers.complaints,
            "runtime": lambda: containers.answers(runtime),
            "containers": lambda: containers.containers(runtime, root),
            "workloads": lambda: generations.workloads(disk, root, runtime),
            "spaces": lambda: machine.spaces(root),
            "certificates": lambda: machine.certificates(root),
            "manifests": lambda: machine.manifests(root),
            "etcd": lambda: etcd.facts(root),
            "etcd_server": lambda: etcd.server(root, generations.stored_keys(disk)),
            "api": lambda: api.readyz(root, {_PORT, *generations.ports(disk)}),
        },
        _SECONDS,
    )
    return dict(found, taken=taken, took=time.monotonic() - begun)


def main(root: str = "") -> None:
    """Print the facts, and end, whatever still hangs."""
    sys.stdout.write(json.dumps(facts(root)) + "\n")
    sys.stdout.flush()
    os._exit(0)
