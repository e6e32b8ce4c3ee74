"""kubeadm's kube-apiserver advertises the address that the charts' one will be at. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from upgrader.adopt.facts import ControllerFacts
from upgrader.errors import Blocked

__all__ = ["check_advertised"]


def check_advertised(controllers: Sequence[ControllerFacts], addresses: Sequence[str]) -> None:
    """The charts' kube-apiserver is the Service `kubernetes` at its node's own address (`addresses`, in order).

    Where kubeadm was given another one (every VM with two networks, as Vagrant's), pods on other nodes would lose the
    API. Raises Blocked.
    """
    for controller, address in zip(controllers, addresses, strict=True):
        pod = controller.active.get("kube-apiserver")
        advertised = pod.flags.get("advertise-address", ("",))[-1] if pod else ""
        if advertised and not _same(advertised, address):
            raise Blocked(
                f"kube-apiserver on {controller.host.name} advertises {advertised}, but its node's InternalIP is "
                f"{address}: pods would use that address for the API, and other nodes may not reach it",
                remedy=f"Make its kubelet register {advertised}: KUBELET_EXTRA_ARGS=--node-ip={advertised} in "
                "/etc/default/kubelet (/etc/sysconfig/kubelet on the RHEL family), systemctl restart kubelet. "
                "Do this on every node, each with its own address in that network. Then run adopt again.",
            )


def _same(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one) == ipaddress.ip_address(other)
    except ValueError:
        return one == other
