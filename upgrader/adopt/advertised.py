"""kubeadm's kube-apiserver advertises the address that the charts' one will be at. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from upgrader.adopt.client_addresses import given_address
from upgrader.adopt.facts import MANIFESTS, ControllerFacts
from upgrader.adopt.leaders_api import is_loopback
from upgrader.errors import Blocked

__all__ = ["check_advertised"]

_ALL = ("0.0.0.0", "::")
_OWN = (
    f"set --advertise-address in {MANIFESTS}/kube-apiserver.yaml to its node's InternalIP, on one controller at a "
    "time; the kubelet restarts kube-apiserver. Clients can use {0} as before."
)
_OF_SEVERAL = f"{{0}} belongs to several controllers, as a virtual IP does. On each of them, {_OWN}"
_OF_ONE = (
    "If {0} is the machine's own address, have its kubelet register it: KUBELET_EXTRA_ARGS=--node-ip={0} in "
    "/etc/default/kubelet (/etc/sysconfig/kubelet on the RHEL family), systemctl restart kubelet. Do this on every "
    f"node, each with its own address in that network. Then run adopt again. If it is a virtual IP, {_OWN}"
)
"""A kubelet that registered a virtual IP would lose its node's address to another machine."""
_OF_NONE = f"No pod can reach the API at {{0}}, a loopback address: {_OWN}"


def check_advertised(controllers: Sequence[ControllerFacts], addresses: Sequence[str]) -> None:
    """The charts' kube-apiserver is the Service `kubernetes` at its node's own address (`addresses`, in order).

    Where kubeadm was given another one (every VM with two networks, as Vagrant's), pods on other nodes would lose the
    API. Raises Blocked.
    """
    found = {each.host.name: _advertised(each) for each in controllers}
    for controller, address in zip(controllers, addresses, strict=True):
        advertised = found[controller.host.name]
        if advertised and not _same(advertised, address):
            shared = sum(_same(advertised, each) for each in found.values()) > 1
            raise Blocked(
                f"kube-apiserver on {controller.host.name} advertises {advertised}, but its node's InternalIP is "
                f"{address}: pods would use that address for the API, and other nodes might not reach it",
                remedy=(_OF_NONE if is_loopback(advertised) else _OF_SEVERAL if shared else _OF_ONE).format(advertised),
            )


def _advertised(controller: ControllerFacts) -> str:
    """Told all addresses, kube-apiserver advertises the machine's own, as without the flag."""
    pod = controller.active.get("kube-apiserver")
    given = given_address(pod.flags, "advertise-address") if pod else ""
    return "" if any(_same(given, each) for each in _ALL) else given


def _same(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one) == ipaddress.ip_address(other)
    except ValueError:
        return one == other
