"""The inventory's address of each controller leads to its node, whose disks, clock and ports allow a replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.onhost.sending.host_facts import HostFacts, Identity, Space, Unknown
from upgrader.preflight.component_flags import component_flags
from upgrader.preflight.context import PreflightContext

__all__ = ["check_clocks", "check_disks", "check_machines", "check_ports"]

_FULL_BYTES = 64 << 20
"""etcd makes its log in files of 64 MB, and doesn't start when it can't."""
_FULL_INODES = 64
_SCARCE = 0.15
"""The free share of a disk below which kubelets remove images and evict pods by default."""
_APART_SECONDS = 1.0
"""From which difference on etcd warns of its members' clocks."""
_OFF_SECONDS = 10.0
_USED_PORTS = (2379, 2380, 2381, 6443, 10250, 10256, 10257, 10259)
"""The ports of kubeadm's control plane."""
_NODE_PORTS = "30000-32767"


def check_machines(context: PreflightContext) -> Iterator[Finding]:
    """Each controller of the inventory is examined, and leads to the machine whose kubelet has that node's name."""
    nodes = {name: ((node.get("status") or {}).get("nodeInfo") or {}) for name, node in context.nodes.items()}
    for host in context.cluster.controllers:
        examined = context.examined.get(host.name)
        if examined is None or examined.facts is None:
            yield Finding(
                "machines.not-examined",
                "unknown",
                f"controller {host.name} can't be examined",
                examined.error if examined else "It was not examined.",
                f"Check that `python3` runs on {host.name} over SSH: recovery also needs it.",
            )
            continue
        identity = examined.facts.identity
        told = nodes.get(host.name, {}).get("machineID", "")
        if isinstance(identity, Unknown) or not identity.machine_id or not told or identity.machine_id == told:
            continue
        others = [name for name, info in nodes.items() if info.get("machineID") == identity.machine_id]
        yield Finding(
            "machines.other-node",
            "error" if others else "warning",
            f"the inventory's address of {host.name} ({host.address}) belongs to "
            f"{first_few(others) if others else 'a machine that no node reports'}",
            f"That machine's ID is {identity.machine_id}; the kubelet of node {host.name} reports {told}. Playbooks "
            "and recovery would change the wrong machine.",
            f"Correct ansible_host of {host.name} in the inventory.",
        )


def check_disks(context: PreflightContext) -> Iterator[Finding]:
    """Every file system that a control plane writes to, once however many folders are on it."""
    for name, facts in context.facts.items():
        known = sorted((s for s in facts.spaces if isinstance(s, Space)), key=lambda s: s.device)
        for _, group in groupby(known, key=lambda s: s.device):
            yield from _disk(name, sorted(group, key=lambda s: s.path))
        unknown = [space.why for space in facts.spaces if isinstance(space, Unknown)]
        if unknown:
            title = f"{name}: free disk space is unknown"
            yield Finding("disks.unread", "unknown", title, "; ".join(unknown), f"Check the disks of {name}: df -h")


def _disk(name: str, spaces: list[Space]) -> Iterator[Finding]:
    space = min(spaces, key=lambda s: s.free)
    paths = ", ".join(s.path for s in spaces)
    free = f"{space.free / 2**20:,.0f} of {space.size / 2**20:,.0f} MiB are free"
    if any(s.read_only for s in spaces if s.path != "/"):
        yield Finding(
            "disks.read-only",
            "error",
            f"{name}: the disk of {paths} is read-only",
            "The kernel remounts a file system read-only after a disk error.",
            f"Read the cause in `dmesg` on {name}, and check the disk.",
        )
    elif space.free < min(_FULL_BYTES, space.size / 2):
        yield Finding(
            "disks.full",
            "error",
            f"{name}: the disk of {paths} is full: {free}",
            "No new pod can start there, and etcd can't write.",
            f"Free space on {name}: du -xhd1 {spaces[0].path}",
        )
    elif space.inodes and space.inodes_free < _FULL_INODES:
        yield Finding(
            "disks.no-inodes",
            "error",
            f"{name}: the disk of {paths} has {space.inodes_free} inodes left",
            "There is free space, but no more files can be created.",
            f"Find the folder with too many files: du --inodes -xd1 {spaces[0].path}",
        )
    elif space.free < _SCARCE * space.size:
        yield Finding(
            "disks.scarce",
            "warning",
            f"{name}: the disk of {paths} is nearly full: {free}",
            f"By default, kubelets remove images and evict pods when less than {_SCARCE:.0%} is free. The images of "
            "the versions that a rollback needs may be among them.",
            f"Free space on {name}: du -xhd1 {spaces[0].path}",
        )


def check_clocks(context: PreflightContext) -> Iterator[Finding]:
    """Certificates, tokens and leases are judged by the clock of the machine that reads them."""
    clocks = {name: facts.clock for name, facts in context.facts.items()}
    for name, clock in clocks.items():
        if abs(clock.offset) - clock.error > _OFF_SECONDS:
            yield Finding(
                "clocks.off",
                "warning",
                f"the clock of {name} is {abs(clock.offset):,.0f} s {'ahead of' if clock.offset > 0 else 'behind'} "
                "this machine's",
                "One of them may see new certificates and tokens as expired or not yet valid.",
                f"Set the clock of {name} (timedatectl, chronyc makestep), or this machine's if that is the wrong one.",
            )
    if len(clocks) > 1:
        first = min(clocks, key=lambda name: clocks[name].offset)
        last = max(clocks, key=lambda name: clocks[name].offset)
        apart = clocks[last].offset - clocks[first].offset
        if apart - clocks[first].error - clocks[last].error > _APART_SECONDS:
            yield Finding(
                "clocks.apart",
                "warning",
                f"the clocks of {first} and {last} are {apart:,.1f} s apart",
                "etcd members and lease holders rely on synchronized clocks.",
                "Synchronize all controllers with the same time server: timedatectl timesync-status, chronyc tracking",
            )


def check_ports(context: PreflightContext) -> Iterator[Finding]:
    """No port that the control plane listens on is given to an outgoing connection, or to a Service, before it is."""
    flags = component_flags(context, "kube-apiserver") or {}
    services = flags.get("service-node-port-range", _NODE_PORTS)
    first, last = _range(services)
    caught = [str(port) for port in _USED_PORTS if first <= port <= last]
    if caught:
        yield Finding(
            "ports.node-ports",
            "warning",
            f"a NodePort Service might get port {', '.join(caught)} of every node",
            f"The NodePort range is {services}. On a controller, kube-proxy would take over that port from the control "
            "plane.",
            "Set --service-node-port-range to a range that excludes the control plane's ports (default: 30000-32767).",
        )
    for name, facts in _identities(context.facts):
        taken = [f"{low}-{high}" if low != high else str(low) for low, high in _given_away(facts, (first, last))]
        if taken:
            yield Finding(
                "ports.ephemeral",
                "warning",
                f"{name}: outgoing connections can use ports that the control plane listens on: {first_few(taken)}",
                f"net.ipv4.ip_local_port_range is {'-'.join(map(str, facts.ephemeral))}. A component that listens "
                "there fails at random when it starts.",
                "Set net.ipv4.ip_local_port_range to 32768 60999, or add these ports to "
                "net.ipv4.ip_local_reserved_ports.",
            )


def _range(text: str) -> tuple[int, int]:
    """`30000-32767`, `30000+2767` or `30000`; (0, -1), which holds none, for anything else."""
    first, sign, last = text.replace("+", "-+").partition("-")
    if not first.isdecimal() or (not last.lstrip("+").isdecimal() and sign):
        return (0, -1)
    low = int(first)
    return (low, low + int(last[1:]) if last.startswith("+") else int(last or low))


def _identities(facts: Mapping[str, HostFacts]) -> Iterator[tuple[str, Identity]]:
    for name, each in facts.items():
        if isinstance(each.identity, Identity) and len(each.identity.ephemeral) == 2:
            yield name, each.identity


def _given_away(identity: Identity, node_ports: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The ports among these that an outgoing connection may get: single ones, or the part of the NodePorts."""
    low, high = identity.ephemeral
    kept = [(first, last) for first, last in identity.reserved]
    for first, last in (*((port, port) for port in _USED_PORTS), node_ports):
        start, end = max(first, low), min(last, high)
        if start <= end and not any(one <= start and end <= other for one, other in kept):
            yield start, end
