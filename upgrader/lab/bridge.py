"""The lab's network on this machine: one bridge, to which systemd-nspawn connects every node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence

from upgrader.errors import LabError
from upgrader.lab.spec import Node, Placement

__all__ = ["add_bridge", "cni_config", "remove_bridge", "remove_port", "route_pods"]


def add_bridge(placement: Placement) -> None:
    """Create the bridge, with the machine's own addresses on it, unless it exists."""
    if placement.prefix not in _links():
        _ip("link", "add", placement.prefix, "type", "bridge")
    for address in filter(None, (*placement.gateways, placement.ssh_gateway)):
        network = ["/64", "dev", placement.prefix, "nodad"] if ":" in address else ["/24", "dev", placement.prefix]
        _ip("address", "replace", address + network[0], *network[1:])
    _ip("link", "set", placement.prefix, "up")


def remove_bridge(placement: Placement) -> None:
    """Remove the bridge and its routes."""
    if placement.prefix in _links():
        _ip("link", "delete", placement.prefix)


def remove_port(node: Node) -> None:
    """Remove the node's interface on the bridge (systemd-nspawn's name for it) if its node left it behind."""
    port = f"vb-{node.machine}"
    if port in _links():
        subprocess.run(["ip", "link", "delete", port], capture_output=True, check=False)  # the kernel may be faster
        if port in _links():
            raise LabError(f"network interface {port} can't be removed")


def route_pods(placement: Placement, pod_cidrs: Mapping[str, Sequence[str]]) -> None:
    """Make pods and Services reachable from this machine: `pod_cidrs` maps the names of nodes to their pod networks,
    one for each IP family.

    Services through the first controller, whose kube-proxy treats this machine as a client outside the cluster.
    """
    first = next(node for node in placement.nodes if node.role == "controller")
    routes = list(zip(placement.service_subnets, placement.node_addresses(first), strict=True))
    for name, cidrs in pod_cidrs.items():
        routes += zip(cidrs, placement.node_addresses(placement.node(name)), strict=True)
    for cidr, address in routes:
        _ip("route", "replace", cidr, "via", address, "dev", placement.prefix)


def cni_config(pod_cidrs: Sequence[str]) -> str:
    """The CNI configuration of a node with these pod networks, as JSON.

    Plugin ptp, not bridge: if every packet is routed, a pod reaches a Service with an endpoint on its own node without
    br_netfilter, which not every kernel has.
    """
    plugins = [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": cidr}] for cidr in pod_cidrs],
                "routes": [{"dst": "::/0" if ":" in cidr else "0.0.0.0/0"} for cidr in pod_cidrs],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "lab", "plugins": plugins}, indent=2) + "\n"


def _links() -> set[str]:
    links = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout
    return {link["ifname"] for link in json.loads(links)}


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
