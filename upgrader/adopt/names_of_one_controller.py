"""Which names of the API lead to one controller alone: with it, they would lead nowhere."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["canonical", "check_endpoints", "host_of", "resolved"]


def check_endpoints(hosts: Hosts, asked: Host, leaving: str, own: frozenset[str], names: Iterable[str]) -> None:
    """Raises Blocked where a name or an address of `names` leads to the leaving controller, and nowhere else.

    They are resolved by `asked`, a controller that stays. One that it can't resolve is a client's own.
    """
    for name in sorted(set(names) - {""}):
        found = resolved(hosts, asked, name)
        if found and found <= own:
            raise Blocked(
                f"clients use the API at {name}, an address of {leaving}; nothing was changed",
                remedy="First point it to the other controllers or to a load balancer: in DNS or /etc/hosts, in "
                "`controlPlaneEndpoint` of ConfigMap kube-system/kubeadm-config, and in this folder's "
                "kubeconfig. To move a virtual IP, stop keepalived or kube-vip on that controller.",
            )


def resolved(hosts: Hosts, host: Host, name: str) -> set[str]:
    """The addresses that a machine finds for a name; none for one that only others know. Raises HostError."""
    try:
        return {str(ipaddress.ip_address(name))}
    except ValueError:
        found = hosts.run(host, ["getent", "ahosts", name], check=False).stdout
        return {str(ipaddress.ip_address(line.split()[0].partition("%")[0])) for line in found.splitlines() if line}


def canonical(name: str) -> str:
    """An address as it is written here: an IPv6 address can be written in many ways. A name stays as it is."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def host_of(endpoint: str) -> str:
    """That of `HOST[:PORT]`, in which an IPv6 address has brackets; "" for none."""
    if endpoint.startswith("["):
        return endpoint[1:].partition("]")[0]
    return endpoint if endpoint.count(":") > 1 else endpoint.partition(":")[0]
