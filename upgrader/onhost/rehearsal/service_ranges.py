"""Whether Services are in the ranges from which kube-apiserver gives them cluster IPs and node ports.

No dry run tells: an update that changes neither asks no allocator, and the one of ports doesn't look at its range in a
dry run. A server's own loops report such Services in Events, at a time of their own, and for as long as those live.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["SERVICES", "SERVICE_CIDRS", "Outside", "Ranges", "outside", "ranges_of"]

SERVICES = ("", "services")
SERVICE_CIDRS = ("networking.k8s.io", "servicecidrs")
"""What counts in a server that serves these. Of its flag, it makes the first one, and never changes it later."""
_PORTS, _ADDRESSES = "service-node-port-range", "service-cluster-ip-range"
_DEFAULT_PORTS, _DEFAULT_ADDRESSES = "30000-32767", "10.0.0.0/24"


class Ranges(NamedTuple):
    """Those of a server, each as it is said, too."""

    ports: range
    ports_said: str
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    networks_said: str

    def with_cidrs(self, objects: Iterable[dict[str, Any]]) -> Ranges:
        """Those with ServiceCIDRs, if there are any."""
        said = [str(cidr) for each in objects for cidr in (each.get("spec") or {}).get("cidrs") or ()]
        if not said:
            return self
        return self._replace(networks=tuple(_networks(said)), networks_said=f"{', '.join(said)} (ServiceCIDRs)")


class Outside(NamedTuple):
    """What of a Service is outside of the target's ranges alone."""

    what: str
    """`port-range` or `address-range`."""
    of_service: tuple[str, ...]
    """Its ports, or its addresses."""
    why: str
    """The target's range."""


def ranges_of(flags: Iterable[str]) -> Ranges:
    """By flags, the last of a name. What can't be read is empty: the server does not start with it."""
    given = dict(flag[2:].partition("=")[::2] for flag in flags)
    ports, networks = (given.get(name, "").strip() for name in (_PORTS, _ADDRESSES))
    return Ranges(
        _ports(ports or _DEFAULT_PORTS),
        f"--{_PORTS}={ports}" if ports else f"{_DEFAULT_PORTS} (the default)",
        tuple(_networks((networks or _DEFAULT_ADDRESSES).split(","))),
        f"--{_ADDRESSES}={networks}" if networks else f"{_DEFAULT_ADDRESSES} (the default)",
    )


def outside(service: dict[str, Any], current: Ranges, target: Ranges) -> Iterator[Outside]:
    """What the running version's ranges have of a Service, and the target's don't."""
    spec = service.get("spec") or {}
    ports = [each.get("nodePort") for each in spec.get("ports") or ()] + [spec.get("healthCheckNodePort")]
    lost = tuple(str(each) for each in dict.fromkeys(ports) if each in current.ports and each not in target.ports)
    if lost:
        yield Outside("port-range", lost, target.ports_said)
    addresses = dict.fromkeys((spec.get("clusterIP"), *(spec.get("clusterIPs") or ())))
    lost = tuple(
        str(each) for each in addresses if _within(each, current.networks) and not _within(each, target.networks)
    )
    if lost:
        yield Outside("address-range", lost, target.networks_said)


def _ports(said: str) -> range:
    """`LOW-HIGH`, `LOW+MORE`, or one."""
    try:
        if "+" in said:
            low, more = map(int, said.split("+"))
            return range(low, low + more + 1)
        low, high = map(int, said.split("-")) if "-" in said else (int(said),) * 2
        return range(low, high + 1)
    except ValueError:
        return range(0)


def _networks(said: Iterable[str]) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    for each in said:
        try:
            yield ipaddress.ip_network(each.strip(), strict=False)
        except ValueError:
            continue


def _within(address: object, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    """Headless Services have `None` as their address, and others have none."""
    try:
        found = ipaddress.ip_address(str(address))
    except ValueError:
        return False
    return any(found in network for network in networks)
