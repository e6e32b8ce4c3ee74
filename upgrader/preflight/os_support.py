"""The nodes' operating systems, kernels, container runtimes and cgroup versions suit their kubelets after the run.

Node objects are read for all nodes; the cgroup version is read only on controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import minor_of, minor_text
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.onhost.sending.host_facts import Cgroups
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.os_lifecycle import OsLifecycle, known_systems, leading_numbers
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import planned_of

__all__ = ["check_os_support"]

_CONTAINERD = "containerd://"


@dataclass(frozen=True)
class _Machine:
    """A node: its reported versions, and its kubelet before and after the run."""

    name: str
    image: str
    kernel: str
    runtime: str
    before: Minor
    after: Minor


def check_os_support(context: PreflightContext) -> Iterator[Finding]:
    """By the kubelets that the nodes will have: of a run that leaves kubelets alone, only what is so already."""
    known, machines = known_systems(), tuple(_machines(context))
    yield from _ended(context, known, machines)
    yield from _kernels(known, machines)
    yield from _runtimes(known, machines)
    yield from _cgroups(context, known, machines)
    yield from _not_known(known, machines)


def _machines(context: PreflightContext) -> Iterator[_Machine]:
    """The nodes whose kubelets have reported: one that never did is a finding of another check."""
    steps = planned_of(context.plan, PlannedNodes)
    planned = {change.node: change.after for step in steps for change in step.nodes}
    # The container runtime is upgraded before the kubelet.
    runtimes = {
        change.node: f"{_CONTAINERD}{step.configuration.runtime.version}"
        for step in steps
        for change in step.nodes
        if step.configuration.runtime and step.configuration.runtime.version
    }
    for name, node in sorted(context.nodes.items()):
        info = (node.get("status") or {}).get("nodeInfo") or {}
        kubelet = context.observed.kubelets.get(name)
        if kubelet is not None:
            yield _Machine(
                name,
                image=info.get("osImage") or "",
                kernel=info.get("kernelVersion") or "",
                runtime=runtimes.get(name) or info.get("containerRuntimeVersion") or "",
                before=minor_of(kubelet),
                after=minor_of(planned.get(name, kubelet)),
            )


def _ended(context: PreflightContext, known: OsLifecycle, machines: Iterable[_Machine]) -> Iterator[Finding]:
    today = context.clock.now().date()
    for image, nodes in _grouped((machine.image, machine.name) for machine in machines).items():
        end = known.ends(image)
        if end is not None and end < today:
            yield Finding(
                "os-support.ended",
                "warning",
                f"{image} has had no security updates since {end}: {first_few(nodes)}",
                "Vendors might sell extended support. Its packages (containerd, runc, the kernel) become outdated, "
                "and Kubernetes is tested with newer ones.",
                "Upgrade these nodes to a supported release, one at a time.",
            )


def _kernels(known: OsLifecycle, machines: Iterable[_Machine]) -> Iterator[Finding]:
    old = [
        (f"kernel {machine.kernel}", machine.name)
        for machine in machines
        if (leading_numbers(machine.kernel) or (99, 0)) < known.oldest_kernel(machine.after)
    ]
    for kernel, nodes in _grouped(old).items():
        yield Finding(
            "os-support.kernel",
            "warning",
            f"{kernel} is older than the kernels that Kubernetes is tested with: {first_few(nodes)}",
            "kubeadm also warns about it (SystemVerification). Some vendors backport what Kubernetes needs.",
            "Install a newer kernel on these nodes: 5.4, 5.10, 5.15, or any from 6.0 on.",
        )


def _runtimes(known: OsLifecycle, machines: Iterable[_Machine]) -> Iterator[Finding]:
    since = f"v{minor_text(known.containerd_refused)}"
    for machine, nodes in _alike(machines).items():
        version = machine.removeprefix(_CONTAINERD)
        numbers = leading_numbers(version) if version != machine else None
        if numbers is None or numbers >= known.containerd:
            continue
        refused = [node.name for node in nodes if node.after >= known.containerd_refused]
        yield Finding(
            "os-support.containerd",
            "error" if refused else "warning",
            f"containerd {version}: kubelets from {since} on drop support for it: "
            f"{first_few(refused or [node.name for node in nodes])}",
            "It doesn't report its cgroup driver (RuntimeConfig) to kubelets. Older kubelets fall back to their own "
            "configuration, and count this in their metric kubelet_cri_losing_support.",
            f"Upgrade containerd to {'.'.join(map(str, known.containerd))} or newer before the kubelets reach {since}.",
        )


def _alike(machines: Iterable[_Machine]) -> Mapping[str, list[_Machine]]:
    """Container runtime → the machines that have it."""
    found: dict[str, list[_Machine]] = {}
    for machine in machines:
        found.setdefault(machine.runtime, []).append(machine)
    return found


def _cgroups(context: PreflightContext, known: OsLifecycle, machines: Iterable[_Machine]) -> Iterator[Finding]:
    since = f"v{minor_text(known.cgroup_v1_refused)}"
    refused: list[str] = []
    old: list[str] = []
    unknown: list[str] = []
    # An upgrade writes the kubelet's configuration before it starts the new one.
    allowed = {
        change.node
        for step in planned_of(context.plan, PlannedNodes)
        for change in step.nodes
        if step.configuration.kubelet.get("failCgroupV1") is False
    }
    for machine in machines:
        facts = context.facts.get(machine.name)
        crosses = machine.before < known.cgroup_v1_refused <= machine.after
        if facts is None or not isinstance(facts.cgroups, Cgroups):
            unknown += [machine.name] if crosses else []
        elif facts.cgroups.version == 1:
            # A kubelet that runs has got that setting, wherever it is.
            starts = facts.cgroups.fail_v1 is False or machine.name in allowed
            (refused if crosses and not starts else old).append(machine.name)
    for nodes, fails in ((refused, True), (old, False)):
        if nodes:
            yield Finding(
                "os-support.cgroup-v1",
                "error" if fails else "warning",
                f"nodes with cgroup v1: {first_few(nodes)}",
                f"Kubelets from {since} on don't start with cgroup v1, unless their configuration has `failCgroupV1: "
                "false`. Kubernetes has deprecated cgroup v1, and will remove support for it.",
                "Boot these nodes with cgroup v2 (kernel parameter systemd.unified_cgroup_hierarchy=1); or set "
                "`failCgroupV1: false` in the file of the kubelet's --config (kubeadm's is "
                "/var/lib/kubelet/config.yaml) before their kubelets are upgraded.",
            )
    if unknown:
        yield Finding(
            "os-support.cgroups-unknown",
            "info",
            f"nodes with an unknown cgroup version: {first_few(unknown)}",
            f"Their kubelets will be {since} or later, which refuse cgroup v1. Only controllers are checked over SSH.",
            "Check one node of each kind: stat -fc %T /sys/fs/cgroup prints cgroup2fs for version 2.",
        )


def _not_known(known: OsLifecycle, machines: Iterable[_Machine]) -> Iterator[Finding]:
    what = [(machine.image or "an unnamed system", machine.name) for machine in machines]
    systems = [(image, name) for image, name in what if known.ends(image) is None]
    kernels = [
        (f"kernel {m.kernel}" if m.kernel else "a kernel without a version", m.name)
        for m in machines
        if leading_numbers(m.kernel) is None
    ]
    found = [f"{each} ({first_few(nodes)})" for each, nodes in _grouped([*systems, *kernels]).items()]
    if found:
        yield Finding(
            "os-support.not-known",
            "info",
            f"end of support is unknown: {first_few(found)}",
            f"They aren't in this upgrader's table of {known.made}.",
            "Check the vendor's support dates.",
        )


def _grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """What → the names of the nodes."""
    found: dict[str, list[str]] = {}
    for what, name in pairs:
        found.setdefault(what, []).append(name)
    return found
