"""A cluster as `upgrader init` has found it."""

from __future__ import annotations

from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.app.initialization import ProposedFolder
from upgrader.cli.ui.terminal import console, show

__all__ = ["print_found"]

_KINDS = {
    "kubeadm": "kubeadm's static pods, which `upgrader adopt` moves into Helm charts",
    "self-hosted": "releases of upgrader's charts",
}


def print_found(found: ProposedFolder, stream: TextIO | None = None) -> None:
    """Print what runs, and each controller with the fingerprint of its SSH host key."""
    cluster, out = found.cluster, console(stream)
    workers = len(cluster.workers)
    show(out, Text(f"Context {found.context} of {found.kubeconfig}: Kubernetes {cluster.version}"))
    show(out, Text(f"Control plane: {_KINDS[cluster.kind]}; {workers} worker{'s' * (workers != 1)}"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("CONTROLLER", "ADDRESS", "KUBELET"):
        table.add_column(title, no_wrap=True)
    table.add_column("SSH HOST KEY", overflow="fold")
    for node in cluster.controllers:
        key = found.keys.get(node.name)
        shown = f"{key.kind} {key.fingerprint}" if key else "unknown"
        table.add_row(*map(Text, (node.name, node.address, node.kubelet, shown)))
    show(out, table)
