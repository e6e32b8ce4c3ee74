"""The run doesn't change the addresses of Service `kubernetes`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES
from upgrader.model.finding import Finding
from upgrader.model.manifest import objects_in
from upgrader.preflight.context import PreflightContext

__all__ = ["check_api_endpoints"]

_RELEASE = "kube-apiserver"
_NAMESPACE = "default"
_UNREGISTERED = "--endpoint-reconciler-type=none"


def check_api_endpoints(context: PreflightContext) -> Iterator[Finding]:
    """The run puts no other address behind Service `kubernetes`: on some networks only one of a machine's is reached.

    Each new kube-apiserver registers the InternalIP that its node has by then, or the chart's fixed address is taken.
    """
    manifest = context.planned(_RELEASE)
    if not manifest:
        return
    slices = context.kube.list(ENDPOINT_SLICES, _NAMESPACE, labels="kubernetes.io/service-name=kubernetes")
    now = _addresses(slices)
    fixed = _addresses(filter(None, [objects_in(manifest).get(f"EndpointSlice {_NAMESPACE}/{_RELEASE}")]))
    registered = set() if _UNREGISTERED in manifest else set(_of_controllers(context))
    lost, new = sorted(now - fixed - registered), sorted((fixed | registered) - now)
    # One that is only lost, or only new, is of a controller that goes, comes, or is down: what other checks are about.
    if lost and new:
        yield Finding(
            "control-plane.endpoint-changes",
            "error",
            f"Service kubernetes would get {', '.join(new)} instead of {', '.join(lost)}",
            "kube-apiserver registers its node's InternalIP, or the address in `endpoints.addresses` of "
            "values/kube-apiserver.yaml. Pods on nodes that can't reach the new address lose access to the API.",
            f"Make the kubelet register {lost[0]} again (--node-ip={lost[0]}), or correct `endpoints.addresses`. If "
            "all nodes reach the new address, skip this check.",
        )


def _addresses(slices: Iterable[Mapping[str, Any]]) -> set[str]:
    return {_same(one) for item in slices for each in item.get("endpoints") or () for one in each["addresses"]}


def _of_controllers(context: PreflightContext) -> Iterator[str]:
    for host in context.cluster.controllers:
        status = context.nodes.get(host.name, {}).get("status") or {}
        own = [item["address"] for item in status.get("addresses") or () if item["type"] == "InternalIP"]
        yield from map(_same, own[:1])


def _same(address: str) -> str:
    """IPv6 has several texts for one address."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address
