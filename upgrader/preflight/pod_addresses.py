"""Pods have addresses in their node's pod CIDR, if pods of most other nodes do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.ports import KubeObject
from upgrader.preflight.address_ranges import pod_cidrs
from upgrader.preflight.context import PODS, PreflightContext

__all__ = ["check_pod_addresses"]

_SAMPLE = 1000
"""Pods that are looked at. A node that gives wrong addresses gives them to all its pods, old ones aside."""
_PAGE = 250


def check_pod_addresses(context: PreflightContext) -> Iterator[Finding]:
    """The first thousand pods of the cluster.

    A network plugin may have ranges of its own, on all nodes: where most nodes' pods are outside, nothing is found.
    """
    ranges = {name: pod_cidrs(node) for name, node in context.nodes.items()}
    inside: set[str] = set()
    outside: dict[str, list[str]] = {}
    for pod in islice(context.kube.each(PODS, at_once=_PAGE), _SAMPLE):
        node, addresses = (pod.get("spec") or {}).get("nodeName", ""), _own_addresses(pod)
        for address in addresses if ranges.get(node) else ():
            if any(address in network for network in ranges[node] if network.version == address.version):
                inside.add(node)
            elif any(network.version == address.version for network in ranges[node]):
                meta = pod["metadata"]
                outside.setdefault(node, []).append(f"{meta.get('namespace', '')}/{meta['name']} ({address})")
    if outside and len(inside - outside.keys()) > len(outside):
        shown = [f"{node}: {first_few(pods, 1)}" for node, pods in sorted(outside.items())]
        yield Finding(
            "pod-addresses.outside",
            "warning",
            f"pods have addresses outside their node's pod CIDR: {first_few(shown)}",
            "Other nodes might have no route to them. This happens when a kubelet or container runtime starts without "
            "its network plugin.",
            f"Check /etc/cni/net.d and the kubelet's flags on {first_few(sorted(outside))}, then delete these pods.",
        )


def _own_addresses(pod: KubeObject) -> list[IPv4Address | IPv6Address]:
    """Of a pod with a network of its own, that runs."""
    spec: Mapping[str, object] = pod.get("spec") or {}
    status = pod.get("status") or {}
    if spec.get("hostNetwork") or status.get("phase") != "Running":
        return []
    return [ip_address(item["ip"]) for item in status.get("podIPs") or () if item.get("ip")]
