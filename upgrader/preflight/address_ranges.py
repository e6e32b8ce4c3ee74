"""Ranges of addresses: which of them overlap, and how much of one is taken. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Literal

from upgrader.ports import KubeObject

__all__ = ["Network", "Range", "blocks_taken", "networks", "overlapping", "pod_cidrs", "usable"]

Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Range:
    """A range of addresses, and whose it is. A single address is a range of one."""

    network: Network
    purpose: Literal["services", "pods", "node"]
    node: str = ""

    def __str__(self) -> str:
        if self.purpose == "services":
            return f"Service CIDR {self.network}"
        if self.purpose == "pods":
            return f"pod CIDR {self.network} of node {self.node}"
        return f"address {self.network.network_address} of node {self.node}"


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The ranges and single addresses among these. Kubernetes admits nothing else where it asks for one."""
    found: list[Network] = []
    for text in filter(None, (text.strip() for text in texts)):
        try:
            found.append(ip_network(text, strict=False))
        except ValueError:
            continue
    return tuple(found)


def pod_cidrs(node: KubeObject) -> tuple[Network, ...]:
    """A node's ranges of addresses for its pods, one of each IP family; () if it has none."""
    spec = node.get("spec") or {}
    return networks(spec.get("podCIDRs") or [spec.get("podCIDR") or ""])


def overlapping(ranges: Iterable[Range]) -> Iterator[tuple[Range, Range]]:
    """Each range that lies in another one that isn't meant to hold it, and the smallest of those.

    Two CIDRs overlap only if one holds the other. In the order of their first addresses, larger ones first, those that
    may hold the next one are those that held the one before: each range is compared with a handful of others.
    """
    around: list[Range] = []
    for item in sorted(ranges, key=_order):
        while around and not _holds(around[-1].network, item.network):
            around.pop()
        outer = next((outer for outer in reversed(around) if _conflict(outer, item)), None)
        if outer is not None:
            yield outer, item
        around.append(item)


def _order(item: Range) -> tuple[int, int, int, str, str]:
    network = item.network
    # Of equal ones, the Services' comes last, so that it is told to lie in the other: it is what can be changed.
    return network.version, int(network.network_address), network.prefixlen, item.purpose, item.node


def _holds(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and outer.supernet_of(inner)  # type: ignore[arg-type]  # of one family


_IPV6 = 6


def _conflict(one: Range, other: Range) -> bool:
    """Service CIDRs may overlap each other, as Kubernetes has it, nodes may share an address (NAT), and a node's own
    address may begin its pod CIDR (IPv6 on GCE).
    """
    if {one.purpose, other.purpose} == {"pods", "node"} and one.node == other.node and one.network.version == _IPV6:
        return False
    return one.purpose != other.purpose or (one.purpose == "pods" and one.node != other.node)


def usable(ranges: Sequence[Network]) -> int:
    """How many addresses Services can get from these, of one family: not the first, and with IPv4 not the last."""
    reserved = {4: 2, 6: 1}
    merged: Iterable[Network] = collapse_addresses(ranges)  # type: ignore[type-var]  # of one family
    return sum(max(0, network.num_addresses - reserved[network.version]) for network in merged)


def blocks_taken(whole: Network, prefix: int, taken: Iterable[Network]) -> int:
    """How many of the blocks with this prefix length that `whole` consists of are taken, if only in part."""
    inside: list[Network] = []
    for network in taken:
        if network.version != whole.version or not network.overlaps(whole):
            continue
        if network.prefixlen < whole.prefixlen:
            network = whole
        inside.append(network.supernet(new_prefix=prefix) if network.prefixlen > prefix else network)
    merged: Iterable[Network] = collapse_addresses(inside)  # type: ignore[type-var]  # of one family
    return sum(1 << max(0, prefix - network.prefixlen) for network in merged)
