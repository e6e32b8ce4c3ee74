"""The specification of a lab: pure values, from which every name and address on the machine is derived.

One lab takes 10.N.0.0/16, N = 128 + its index: nodes 10.N.0.0/24 (the machine itself is .1), Services 10.N.16.0/20,
pods 10.N.128.0/17. Everything that it creates on the machine has the prefix `uplab<index>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["MAX_LABS", "LabSpec", "Node", "Placement"]

MAX_LABS = 100
_ROLES = {"load-balancer": ("lb", 10), "controller": ("controller", 11), "worker": ("worker", 31)}


@dataclass(frozen=True)
class Node:
    """One machine of a lab. `role` is controller, worker or load-balancer."""

    name: str
    role: str
    address: str
    machine: str

    @property
    def kubernetes(self) -> bool:
        """Whether this is a node of the Kubernetes cluster (the load balancer is not)."""
        return self.role != "load-balancer"


@dataclass(frozen=True)
class LabSpec:
    """What an operator asks for."""

    name: str
    controllers: int = 1
    workers: int = 0
    kubernetes: str = "v1.36.3"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", self.name):
            raise UsageError(
                f"lab name {self.name!r} is not a DNS label of at most 32 lower-case letters, digits and -"
            )
        if not re.fullmatch(r"v1\.\d+\.\d+", self.kubernetes):
            raise UsageError(f"Kubernetes version {self.kubernetes!r} is not of the form v1.36.3")
        if not 1 <= self.controllers <= 7 or not 0 <= self.workers <= 50:
            raise UsageError(f"a lab has 1-7 controllers and 0-50 workers, not {self.controllers} and {self.workers}")


@dataclass(frozen=True)
class Placement:
    """A lab and its place on this machine: `index` picks its networks, `folder` is its cluster folder."""

    spec: LabSpec
    index: int
    folder: Path

    @property
    def prefix(self) -> str:
        """The prefix of every name that the lab creates on the machine; also its bridge."""
        return f"uplab{self.index}"

    @property
    def network(self) -> str:
        """The network of this lab, CIDR."""
        return f"10.{128 + self.index}.0.0/16"

    @property
    def gateway(self) -> str:
        """The machine's own address on the lab's bridge."""
        return f"10.{128 + self.index}.0.1"

    @property
    def service_subnet(self) -> str:
        """Addresses of Services, CIDR."""
        return f"10.{128 + self.index}.16.0/20"

    @property
    def cluster_dns(self) -> str:
        """Address of the Service kube-dns (kubeadm's choice: the tenth of the Service subnet)."""
        return f"10.{128 + self.index}.16.10"

    @property
    def pod_subnet(self) -> str:
        """Addresses of pods, CIDR; each node gets a /24 of it."""
        return f"10.{128 + self.index}.128.0/17"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every machine, in the order in which they are created."""
        counts = {
            "load-balancer": 1 if self.spec.controllers > 1 else 0,
            "controller": self.spec.controllers,
            "worker": self.spec.workers,
        }
        return tuple(
            Node(
                name=f"{_ROLES[role][0]}-{number + 1}",
                role=role,
                address=f"10.{128 + self.index}.0.{_ROLES[role][1] + number}",
                machine=f"{self.prefix}-{role[0]}{number + 1}",
            )
            for role, count in counts.items()
            for number in range(count)
        )

    @property
    def endpoint_name(self) -> str:
        """Host name of the API server, known to every node through /etc/hosts."""
        return f"api.{self.spec.name}.lab"

    @property
    def endpoint_address(self) -> str:
        """The address of that name: the load balancer's, or else the only controller's."""
        return self.nodes[0].address

    def node(self, name: str) -> Node:
        """The node of that name; UsageError names those that exist."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise UsageError(f"lab {self.spec.name} has no node {name!r}", remedy=f"its nodes are: {names}")
