"""All facts of this host, as one line of JSON on standard output."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from upgrader.onhost.common.questions import together
from upgrader.onhost.facts import (
    accepted_clients,
    apiserver_answer,
    checkpoint_facts,
    container_facts,
    etcd_facts,
    identity_facts,
    machine_facts,
    named_etcd,
    unattended_updates,
)
from upgrader.onhost.node.disk_inventory import Inventory

_SECONDS = 9.0
_PORT = 6443
"""Where kube-apiserver usually listens."""


def facts(root: str) -> dict[str, Any]:
    """The facts of this host; `root` is the prefix of every path (empty on a real host)."""
    taken, begun = time.time(), time.monotonic()
    socket = container_facts.socket_path(root)
    runtime = container_facts.runtime(socket)
    disk = Inventory(Path(root + "/etc/kubernetes"))
    service = "crio" if socket.endswith("crio.sock") else "containerd"
    found = together(
        {
            "booted": machine_facts.booted,
            "kubelet": lambda: machine_facts.unit("kubelet"),
            "containerd": lambda: machine_facts.unit(service),
            "complaints": container_facts.complaints,
            "runtime": lambda: container_facts.answers(runtime),
            "containers": lambda: container_facts.containers(runtime, root),
            "workloads": lambda: checkpoint_facts.workloads(disk, root, runtime),
            "identity": lambda: identity_facts.identity(root),
            "cgroups": lambda: machine_facts.cgroups(root),
            "updates": lambda: unattended_updates.updates(root),
            "spaces": lambda: machine_facts.spaces(root),
            "certificates": lambda: machine_facts.certificates(root),
            "manifests": lambda: machine_facts.manifests(root),
            "etcd": lambda: etcd_facts.facts(root),
            "etcd_named_here": lambda: named_etcd.named_here(disk, root),
            "etcd_server": lambda: etcd_facts.server(root, checkpoint_facts.stored_keys(disk)),
            "api": lambda: apiserver_answer.readyz(root, {_PORT, *checkpoint_facts.ports(disk)}),
            "clients": lambda: accepted_clients.accepted(root, {_PORT, *checkpoint_facts.ports(disk)}, runtime),
        },
        _SECONDS,
    )
    return dict(found, taken=taken, took=time.monotonic() - begun)


def main(root: str = "") -> None:
    """Print the facts, and exit even if a query still hangs."""
    sys.stdout.write(json.dumps(facts(root)) + "\n")
    sys.stdout.flush()
    os._exit(0)
