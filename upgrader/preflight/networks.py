"""The ranges from which Kubernetes allocates addresses don't overlap, and have room for another node and more Services.

A network plugin with its own pool of addresses is not checked: the API doesn't show how full that is, an unknown would
block every run on such a cluster for something that no run needs, and a warning would never go away. That is why the
first sentence, which is also in the reference, doesn't mention it. If kube-controller-manager allocates, or may,
unreadable values are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import SERVICE_CIDRS, SERVICES
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.ports import Kind, Kube, KubeObject
from upgrader.preflight.address_ranges import Network, Range, blocks_taken, networks, overlapping, pod_cidrs, usable
from upgrader.preflight.component_flags import component_flags
from upgrader.preflight.context import PreflightContext

__all__ = ["check_networks"]

_ADDRESSES = Kind("networking.k8s.io/v1", "ipaddresses", namespaced=False)
_FAMILY = "ipaddress.kubernetes.io/ip-family"
_FULL = 0.9
"""The share of Services' addresses from which on it is worth a warning."""
_MASKS = {4: 24, 6: 64}
"""IP family → the prefix length of nodes' pod CIDRs, where no flag of kube-controller-manager sets it."""
_CONTROLLER_MANAGER = "kube-controller-manager"
_POD_ROOM_UNKNOWN = "it is unknown whether the next node gets a pod CIDR"
_SERVICE_FLAG = "service-cluster-ip-range"


def check_networks(context: PreflightContext) -> Iterator[Finding]:
    """Service CIDRs, nodes' pod CIDRs and nodes' addresses; then the pod CIDRs and Service addresses that are left."""
    services = _service_cidrs(context)
    yield from _overlaps(context, services)
    yield from _pod_room(context)
    yield from _service_room(context.kube, services)


def _service_cidrs(context: PreflightContext) -> tuple[Network, ...]:
    """The ranges that Services get addresses from; where the API doesn't serve them, kube-apiserver's flag."""
    try:
        found = context.kube.list(SERVICE_CIDRS)
    except ApiError as error:
        if error.status != 404:
            raise
        found = ()
    cidrs = [cidr for item in found for cidr in (item.get("spec") or {}).get("cidrs") or ()]
    flags = {} if cidrs else component_flags(context, "kube-apiserver") or {}
    return networks(cidrs or flags.get(_SERVICE_FLAG, "").split(","))


def _overlaps(context: PreflightContext, services: Sequence[Network]) -> Iterator[Finding]:
    ranges = [Range(network, "services") for network in services]
    for name, node in context.nodes.items():
        ranges += [Range(network, "pods", name) for network in pod_cidrs(node)]
        ranges += [Range(network, "node", name) for network in _addresses(node)]
    found = [f"{inner} lies in {outer}" for outer, inner in overlapping(ranges)]
    if found:
        yield Finding(
            "networks.overlap",
            "warning",
            f"networks overlap: {first_few(found)}",
            "Routing between them depends on routes and kube-proxy's rules. It fails once a Service, pod or node gets "
            "an address that is in use in the other network.",
            "A node gets another pod CIDR when it is deleted and joins again. For Services, add a ServiceCIDR that "
            "overlaps nothing; to stop using the old one, see "
            "https://kubernetes.io/docs/tasks/network/reconfigure-default-service-ip-ranges/.",
        )


def _addresses(node: KubeObject) -> tuple[Network, ...]:
    found = (node.get("status") or {}).get("addresses") or ()
    return networks({item["address"] for item in found if item.get("type") in ("InternalIP", "ExternalIP")})


def _pod_room(context: PreflightContext) -> Iterator[Finding]:
    """Whether the next node gets a pod CIDR, of each IP family, where kube-controller-manager allocates them."""
    flags = component_flags(context, _CONTROLLER_MANAGER)
    if flags is None:
        yield _pod_room_unknown(f"No {_CONTROLLER_MANAGER} pod with readable flags was found on a controller.")
        return
    own_pool = flags.get("cidr-allocator-type", "RangeAllocator") != "RangeAllocator"
    if flags.get("allocate-node-cidrs", "").lower() not in ("true", "t", "1") or own_pool:
        return
    taken = [network for node in context.nodes.values() for network in pod_cidrs(node)]
    taken += networks(flags.get(_SERVICE_FLAG, "").split(","))  # which it leaves out
    clusters = networks(flags.get("cluster-cidr", "").split(","))
    if not clusters:
        yield _pod_room_unknown(f"{_CONTROLLER_MANAGER} has no --cluster-cidr to allocate them from.")
    for cluster in clusters:
        mask = flags.get(f"node-cidr-mask-size-ipv{cluster.version}") or flags.get("node-cidr-mask-size") or "0"
        if not mask.isdecimal():
            yield _pod_room_unknown(f"{_CONTROLLER_MANAGER} allocates a /{mask} to each node.")
            continue
        prefix = int(mask) or _MASKS[cluster.version]
        used, blocks = blocks_taken(cluster, prefix, taken), 1 << max(0, prefix - cluster.prefixlen)
        if used >= blocks:
            yield Finding(
                "networks.no-pod-room",
                "warning",
                f"the next node gets no IPv{cluster.version} pod CIDR",
                f"{_CONTROLLER_MANAGER} gives each node a /{prefix} of {cluster}: {used} of {blocks} are taken.",
                "Delete nodes that are permanently gone (kubectl get nodes), or extend --cluster-cidr "
                "(network.podSubnet of chart kubernetes): the new range must contain the current one, and must also "
                "be set in the network plugin.",
            )


def _pod_room_unknown(why: str) -> Finding:
    return Finding("networks.pod-room-unknown", "warning", _POD_ROOM_UNKNOWN, why)


def _service_room(kube: Kube, services: Sequence[Network]) -> Iterator[Finding]:
    """Whether Services soon get no more addresses, of each IP family."""
    if not services:
        yield Finding(
            "networks.service-room-unknown",
            "warning",
            "it is unknown whether new Services get addresses",
            f"The API serves no ServiceCIDR, and the flag --{_SERVICE_FLAG} was found in no kube-apiserver pod on a "
            "controller.",
        )
        return
    most = kube.count(SERVICES)  # each has one address of a family at most, and some (headless ones) have none
    for version in (4, 6):
        cidrs = [network for network in services if network.version == version]
        room = usable(cidrs)
        used = _addresses_used(kube, version, most) if cidrs and most >= _FULL * room else 0
        if cidrs and used >= _FULL * room:
            yield Finding(
                "networks.service-room",
                "warning",
                f"{used:,} of {room:,} IPv{version} addresses of Services are taken",
                f"The ranges are {', '.join(map(str, cidrs))}. Without a free address, no Service can be created, "
                "not even by a release.",
                "Add a ServiceCIDR: https://kubernetes.io/docs/tasks/network/extend-service-ip-ranges/",
            )


def _addresses_used(kube: Kube, version: int, most: int) -> int:
    """How many addresses are allocated; where the API doesn't serve them, how many at most."""
    try:
        return kube.count(_ADDRESSES, labels=f"{_FAMILY}=IPv{version}")
    except ApiError as error:
        if error.status != 404:
            raise
        return most
