"""A cluster as its folder describes it: which machines, and how to reach them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cluster", "Host"]


@dataclass(frozen=True)
class Host:
    """One machine of the inventory. `name` is also its Kubernetes node name."""

    name: str
    address: str
    user: str = "root"
    port: int = 22
    key_file: Path | None = None
    known_hosts: Path | None = None
    become: bool = False
    """Whether commands need sudo (Ansible's `ansible_become`)."""


@dataclass(frozen=True)
class Cluster:
    """The machines of a cluster and the files that describe it. All paths are absolute."""

    folder: Path
    kubeconfig: Path
    context: str
    inventory: Path
    controllers: tuple[Host, ...]
    workers: tuple[Host, ...] = ()
    load_balancers: tuple[Host, ...] = ()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Every machine, controllers first."""
        return self.controllers + self.workers + self.load_balancers
