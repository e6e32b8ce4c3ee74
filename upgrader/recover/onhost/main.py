"""All facts of this host, as one line of JSON on standard output."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any

from . import api, containers, etcd, generations, machine
from .probe import together

_SECONDS = 9.0
_PORT = 6443


def facts(root: str) -> dict[str, Any]:
    """What is so on this host; `root` stands before every path (empty on a real one)."""
    taken, begun = time.time(), time.monotonic()
    socket = containers.socket_path(root)
    service = "crio" if socket.endswith("crio.sock") else "containerd"
    found = together(
        {
            "booted": machine.booted,
            "kubelet": lambda: machine.unit("kubelet"),
            "containerd": lambda: machine.unit(service),
            "complaints": containers.complaints,
            "runtime": lambda: containers.runtime(socket),
            "containers": lambda: containers.containers(socket, root),
            "workloads": lambda: generations.workloads(root, lambda name: containers.image(socket, name)),
            "spaces": lambda: machine.spaces(root),
            "certificates": lambda: machine.certificates(root),
            "manifests": lambda: machine.manifests(root),
            "etcd": lambda: etcd.facts(root),
            "etcd_server": lambda: etcd.server(root, generations.stored(root)),
            "api": lambda: api.readyz(root, ports(root)),
        },
        _SECONDS,
    )
    return dict(found, taken=taken, took=time.monotonic() - begun)


def ports(root: str) -> set[int]:
    """Where kube-apiserver may listen: the usual port, and what the copies' manifests say."""
    found = {_PORT}
    for folder, _, names in os.walk(root + "/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver"):
        if "manifest.json" in names:
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8", errors="replace") as file:
                found.update(int(port) for port in re.findall(r"--secure-port=(\d{1,5})\b", file.read()))
    return found


def main(root: str = "") -> None:
    """Print the facts, and end, whatever still hangs."""
    sys.stdout.write(json.dumps(facts(root)) + "\n")
    sys.stdout.flush()
    os._exit(0)
