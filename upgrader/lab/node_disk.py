"""A node's disk before it is first switched on: identity, names, keys, configuration."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from upgrader.lab.build_cache import built
from upgrader.lab.containerd import containerd_config
from upgrader.lab.host_capabilities import HostCapabilities
from upgrader.lab.image_catalog import link_store
from upgrader.lab.nspawn_machine import BOUND
from upgrader.lab.spec import Node, Placement, bracketed

__all__ = ["make_disk"]


def make_disk(
    placement: Placement,
    node: Node,
    target: Path,
    *,
    facts: HostCapabilities,
    keys: Path,
    store: Path,
    pause_image: str,
    more: dict[str, tuple[str, int]],
) -> None:
    """Create the folder `target` with the node's disk, unless it exists.

    `keys` contains the lab's SSH key and a host key for each node, `more` further files: path → (text, mode).
    """

    def build(disk: Path) -> None:
        for folder in ("upper", "work", "root", *(name for name in BOUND if name != "containerd")):
            (disk / folder).mkdir(parents=True)
        if node.kubernetes:
            link_store(store, disk / "containerd")
        else:
            (disk / "containerd").mkdir()
        files = {
            "/etc/hostname": (f"{node.host_name}\n", 0o644),
            "/etc/hosts": (_hosts(placement), 0o644),
            "/etc/machine-id": (f"{uuid.uuid4().hex}\n", 0o444),
            # No server listens there: names outside the cluster fail at once instead of after a timeout.
            "/etc/resolv.conf": (f"nameserver {placement.gateways[0]}\n", 0o644),
            "/etc/lab/network": (_network(placement, node), 0o644),
            "/etc/ssh/sshd_config.d/address.conf": (
                f"ListenAddress {bracketed(node.ssh_address)}:{node.ssh_port}\n",
                0o644,
            ),
            "/etc/containerd/config.toml": (
                containerd_config(facts, pause_image, placement.spec.containerd),
                0o644,
            ),
            "/etc/ssh/ssh_host_ed25519_key": ((keys / f"host_{node.name}").read_text(), 0o600),
            "/root/.ssh/authorized_keys": ((keys / "id_ed25519.pub").read_text(), 0o600),
            **more,
        }
        for path, (text, mode) in files.items():
            _write(disk, path, text, mode)
        (disk / "upper/root").chmod(0o700)
        (disk / "upper/root/.ssh").chmod(0o700)

    built(target, build)


def _write(disk: Path, path: str, text: str, mode: int) -> None:
    """Write a file where the node will see it: into a bound folder, or the overlay's upper side."""
    file = disk / "upper" / path.lstrip("/")
    for folder, inside in BOUND.items():
        if path.startswith(f"{inside}/"):
            file = disk / folder / path[len(inside) + 1 :]
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as stream:
        stream.write(text)


def _hosts(placement: Placement) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost", f"{placement.endpoint_address} {placement.endpoint_name}"]
    for node in placement.nodes:
        also = f" {placement.registry_host.partition(':')[0]}" if node.role == "registry" else ""
        names = dict.fromkeys((node.name, node.host_name))
        lines.append(f"{node.address} {' '.join(names)}{also}")
    return "\n".join(lines) + "\n"


def _network(placement: Placement, node: Node) -> str:
    addresses, gateways = " ".join(placement.addresses(node)), " ".join(placement.gateways)
    return f"ADDRESSES='{addresses}'\nGATEWAYS='{gateways}'\n"
