"""kube-apiserver's port is one at which the charts' pods may listen.

They run as root without capabilities, and share the controller's network: ports below the kernel's first unprivileged
one are closed to kube-apiserver and HAProxy there. kubeadm's static pods have NET_BIND_SERVICE, so `bindPort: 443`
works with them.
"""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.adopt.client_addresses import ApiPod
from upgrader.adopt.facts import ControllerFacts
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.host_sysctls import UNPRIVILEGED_PORTS, live_file
from upgrader.ports import Hosts

__all__ = ["check_low_port"]

_USUAL = 1024
"""The kernel's own setting."""


def check_low_port(hosts: Hosts, controllers: Iterable[ControllerFacts]) -> None:
    """Of each controller whose kube-apiserver is a static pod. Raises Blocked, or HostError."""
    for controller in controllers:
        static = controller.active.get("kube-apiserver")
        port = ApiPod(controller.host, static.flags).port if static else _USUAL
        if port < _USUAL and port < (first := _first_unprivileged(hosts, controller.host)):
            raise Blocked(
                f"{controller.host.name}: kube-apiserver listens on port {port}, but the chart's pods can't listen "
                f"there: they run as root without capabilities, and may use only ports from {first} on "
                f"({UNPRIVILEGED_PORTS}); "
                "nothing was changed",
                remedy=f"On every controller: sysctl -w {UNPRIVILEGED_PORTS}={port}, and the same line in a file in "
                f"/etc/sysctl.d. All users of the machine may then listen on ports from {port} on.",
            )


def _first_unprivileged(hosts: Hosts, host: Host) -> int:
    return int(hosts.run(host, ["cat", live_file(UNPRIVILEGED_PORTS)]).stdout)
