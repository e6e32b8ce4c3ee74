"""The specification of a lab: pure values, from which every name and address on the machine is derived.

One lab takes 10.N.0.0/16, N = 128 + its index: nodes 10.N.0.0/24 (the machine itself is .1), their SSH addresses, if
they have any of their own, 10.N.2.0/24, Services 10.N.16.0/20, pods 10.N.128.0/17. Everything that it creates on the
machine has the prefix `uplab<index>`.

With two IP families it also has fd00:7570:N::/48 (N in hexadecimal): the first /64 for nodes, whose last number is that
of their other address, 1::/112 for Services, 100::/56 for pods. With IPv6 alone the machines have only these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["DEBIAN", "MAX_CONTROLLERS", "MAX_LABS", "MAX_WORKERS", "LabSpec", "Node", "Placement", "bracketed"]

MAX_LABS = 100
MAX_CONTROLLERS = 7
MAX_WORKERS = 50
DEBIAN = {12: "bookworm", 13: "trixie"}
"""Releases of the machines' system: number → name."""
_ROLES = {
    "bastion": ("bastion", 2),
    "load-balancer": ("lb", 10),
    "controller": ("controller", 11),
    "worker": ("worker", 31),
    "etcd": ("etcd", 20),
    "registry": ("registry", 21),
}


_PORT = 6443
_VALUED = ("port", "debian", "containerd", "layout")
"""Options of `lab up` that make a lab less simple, and have a value."""
_TAKEN_PORTS = (2379, 2380, 2381, 8404, 10248, 10249, 10250, 10256, 10257, 10259)
"""Of etcd, the kubelet and the other components on a controller."""


def bracketed(address: str) -> str:
    """An IP address as it stands before a port."""
    return f"[{address}]" if ":" in address else address


@dataclass(frozen=True)
class Node:
    """One machine of a lab. `role` is controller, worker, load-balancer, etcd, registry or bastion."""

    name: str
    role: str
    address: str
    """Its address in the cluster: a Kubernetes node's InternalIP."""
    ssh_address: str
    """Where sshd listens, and the inventory's `ansible_host`; the same, unless the lab has SSH addresses."""
    machine: str
    host_name: str
    """The machine's own host name; the node's name, unless the lab has other host names."""

    @property
    def kubernetes(self) -> bool:
        """Whether this is a node of the Kubernetes cluster."""
        return self.role in ("controller", "worker")

    @property
    def ssh_port(self) -> int:
        """Where sshd listens: the bastion doesn't use the default port."""
        return 2222 if self.role == "bastion" else 22


@dataclass(frozen=True)
class LabSpec:
    """The requested properties of a lab."""

    name: str
    controllers: int = 1
    workers: int = 0
    kubernetes: str = "v1.36.3"
    registry: bool = False
    """The charts' images come from a registry with a login; the nodes have only the images of kubeadm's own pods."""
    token: bool = False
    """The kubeconfig has a ServiceAccount's token instead of a client certificate."""
    port: int = _PORT
    """Port of the API, on controllers and load balancer."""
    ssh_address: bool = False
    """sshd listens on an address of its own, which isn't in Kubernetes."""
    vip: bool = False
    """The API's name and the kubeconfig have one more address: a second one of the only controller, or the one that
    keepalived assigns to one of several controllers, instead of a load balancer (`keepalived.py`).
    """
    dual_stack: bool = False
    """Nodes, pods and Services have IPv6 addresses as well."""
    ipv6: bool = False
    """Machines, pods and Services have IPv6 addresses only."""
    hardened: bool = False
    """The control plane has the flags, files and volumes that security benchmarks require (`hardening.py`)."""

    external_etcd: bool = False
    """etcd is a service on its own node, and not a static pod of the controllers."""

    host_names: bool = False
    """The machines' host names differ from their node names."""

    mirror: bool = False
    """Kubernetes, etcd, CoreDNS and pause are upstream's release from a mirror, and not built here."""

    bastion: bool = False
    """All logins go through one more machine, and only through it (`bastion.py`)."""

    ingress: bool = False
    """lb-1 is also before the workers, with an agent that takes them out and returns them (`haproxy_agent.py`)."""

    debian: int = 12
    """The machines' system: one of `DEBIAN`."""

    containerd: str = ""
    """A version of containerd, `v2.4.2`, from v2.1.0 on, with the configuration that labs write; "" for the system's
    own.
    """

    flannel: bool = False
    """flannel connects the pods, instead of the lab's own routes (`flannel.py`)."""

    layout: str = ""
    """`kubespray`: files, flags and etcd of the controllers as Kubespray has them (`kubespray.py`); "": kubeadm's."""

    like: str = field(default="", repr=False)
    """What it has of another cluster, as `Likeness.text` writes it (`likeness.py`); "": nothing."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", self.name):
            raise UsageError(
                f"lab name {self.name!r} is not a DNS label of at most 32 lower-case letters, digits and -"
            )
        if not re.fullmatch(r"v1\.\d+\.\d+", self.kubernetes):
            raise UsageError(f"Kubernetes version {self.kubernetes!r} is not of the form v1.36.3")
        if not 1 <= self.controllers <= MAX_CONTROLLERS or not 0 <= self.workers <= MAX_WORKERS:
            raise UsageError(
                f"a lab has 1-{MAX_CONTROLLERS} controllers and 0-{MAX_WORKERS} workers, not {self.controllers} and "
                f"{self.workers}"
            )
        if self.ingress and not self.workers:
            raise UsageError("--ingress needs workers behind its load balancer: add --workers")
        if not 1024 <= self.port <= 29999 or self.port in _TAKEN_PORTS:
            taken = ", ".join(map(str, _TAKEN_PORTS))
            raise UsageError(f"the API can't use port {self.port}: choose one from 1024 to 29999, except {taken}")
        others = [self.dual_stack, self.vip, self.ssh_address, self.external_etcd, self.ingress, self.flannel]
        if self.ipv6 and any(others):
            raise UsageError(
                "--ipv6 can't be combined with --dual-stack, --vip, --ssh-address, --external-etcd, --ingress "
                "or --flannel"
            )
        if self.hardened and int(self.kubernetes.split(".")[1]) < 34:
            raise UsageError(
                f"--hardened needs Kubernetes v1.34 or later, for its authentication file, not {self.kubernetes}"
            )
        if self.layout not in ("", "kubespray"):
            raise UsageError(f"layout {self.layout!r} is not known: choose kubespray, or omit --layout for kubeadm's")
        if self.layout and any((self.hardened, self.external_etcd, self.ipv6)):
            raise UsageError("--layout can't be combined with --hardened, --external-etcd or --ipv6")
        if self.like and self.hardened:
            raise UsageError("--like can't be combined with --hardened: the lab has the copied cluster's flags")
        if self.debian not in DEBIAN:
            known = ", ".join(map(str, DEBIAN))
            raise UsageError(f"Debian {self.debian} is not supported: choose {known}")
        if self.containerd and not re.fullmatch(r"v2\.[1-9]\d*\.\d+", self.containerd):
            raise UsageError(
                f"containerd {self.containerd!r} is not of the form v2.4.2, from v2.1.0 on",
                remedy="Omit --containerd to use Debian's containerd.",
            )

    @property
    def balanced(self) -> bool:
        """Whether lb-1 is before the API of several controllers."""
        return self.controllers > 1 and not self.vip

    @property
    def keepalived(self) -> bool:
        """Whether keepalived runs on the controllers."""
        return self.vip and self.controllers > 1

    @property
    def switches(self) -> tuple[str, ...]:
        """The options of `lab up` that make this lab less simple than the default."""
        on = [f"--{each.name.replace('_', '-')}" for each in fields(self) if getattr(self, each.name) is True]
        differing = {each.name for each in fields(self) if getattr(self, each.name) != each.default}
        on += ["--like FILE"] if self.like else []
        return (*on, *(f"--{name} {getattr(self, name)}" for name in _VALUED if name in differing))


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
        """The machine's own IPv4 address on the lab's bridge."""
        return f"10.{128 + self.index}.0.1"

    @property
    def service_subnets(self) -> tuple[str, ...]:
        """Addresses of Services, one CIDR for each IP family."""
        return self._families(f"10.{128 + self.index}.16.0/20", f"{self._ipv6}:1::/112")

    @property
    def cluster_dns(self) -> str:
        """Address of the Service kube-dns (kubeadm's choice: the tenth of the Service subnet)."""
        return f"{self._ipv6}:1::a" if self.spec.ipv6 else f"10.{128 + self.index}.16.10"

    @property
    def pod_subnets(self) -> tuple[str, ...]:
        """Addresses of pods, one CIDR for each IP family; each node gets a /24, or a /64, of it."""
        return self._families(f"10.{128 + self.index}.128.0/17", f"{self._ipv6}:100::/56")

    @property
    def gateways(self) -> tuple[str, ...]:
        """The machine's own addresses on the lab's bridge, one for each IP family."""
        return self._families(self.gateway, f"{self._ipv6}::1")

    def node_addresses(self, node: Node) -> tuple[str, ...]:
        """A node's addresses in the cluster, one for each IP family."""
        return self._families(node.address, f"{self._ipv6}::{re.split('[.:]', node.address)[-1]}")

    @property
    def _ipv6(self) -> str:
        return f"fd00:7570:{128 + self.index:x}"

    def _families(self, ipv4: str, ipv6: str) -> tuple[str, ...]:
        if self.spec.ipv6:
            return (ipv6,)
        return (ipv4, ipv6) if self.spec.dual_stack else (ipv4,)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every machine, in the order in which they are created."""
        counts = {
            "bastion": 1 if self.spec.bastion else 0,  # first: without it, no other machine can be logged in to
            "load-balancer": 1 if self.spec.balanced or self.spec.ingress else 0,
            "controller": self.spec.controllers,
            "worker": self.spec.workers,
            "etcd": 1 if self.spec.external_etcd else 0,
            "registry": 1 if self.spec.registry else 0,
        }
        network = f"{self._ipv6}::" if self.spec.ipv6 else f"10.{128 + self.index}.0."
        ssh_network = f"10.{128 + self.index}.2." if self.spec.ssh_address else network
        return tuple(
            Node(
                name=f"{_ROLES[role][0]}-{number + 1}",
                role=role,
                address=f"{network}{_ROLES[role][1] + number}",
                ssh_address=f"{ssh_network}{_ROLES[role][1] + number}",
                machine=f"{self.prefix}-{role[0]}{number + 1}",
                host_name=f"host-{role[0]}{number + 1}" if self.spec.host_names else f"{_ROLES[role][0]}-{number + 1}",
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
        """The address of that name: the virtual IP, the load balancer's, or else the only controller's."""
        if self.spec.vip:
            return f"10.{128 + self.index}.0.9"
        role = "load-balancer" if self.spec.balanced else "controller"
        return next(node.address for node in self.nodes if node.role == role)

    @property
    def endpoint(self) -> str:
        """URL of the API server for clients that can't resolve the name."""
        return f"https://{bracketed(self.endpoint_address)}:{self.spec.port}"

    @property
    def ssh_gateway(self) -> str:
        """The machine's own address among the SSH addresses; "" if the nodes have none of their own."""
        return f"10.{128 + self.index}.2.1" if self.spec.ssh_address else ""

    def addresses(self, node: Node) -> tuple[str, ...]:
        """All addresses of a node's interface with their prefix lengths; the node's own one first."""
        found = [f"{each}/{64 if ':' in each else 24}" for each in self.node_addresses(node)]
        if node.ssh_address != node.address:
            found.append(f"{node.ssh_address}/24")
        if self.spec.vip and not self.spec.keepalived and node.role == "controller":
            # As keepalived adds it: never the source address of the node's own connections.
            found.append(f"{self.endpoint_address}/32")
        return tuple(found)

    @property
    def registry_host(self) -> str:
        """Host and port of the lab's registry, the prefix of image names; every node resolves it through /etc/hosts."""
        return f"registry.{self.spec.name}.lab:5000"

    def node(self, name: str) -> Node:
        """The node of that name; UsageError names the existing ones."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise UsageError(f"lab {self.spec.name} has no node {name!r}", remedy=f"its nodes are: {names}")
