"""Which controllers are down, and which of them is left out of runs until it is back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from upgrader.errors import Blocked, HostError, HostSilent
from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES, NODES
from upgrader.gates.node_health import is_unreachable
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.left_out import CONTROL_PLANE, LeftOut, LeftOutPhase
from upgrader.onhost.sending.host_facts import EtcdServer, HostFacts, Unknown
from upgrader.ports import Hosts, Kube, KubeObject
from upgrader.preflight.context import PreflightContext

__all__ = [
    "LEAST_CONTROLLERS",
    "check_left_out",
    "down_controllers",
    "etcd_problem",
    "half_left_out",
    "is_down",
    "left_out_of",
    "may_be_left_out",
    "refuse_relabelled",
    "serves",
    "told_as_down",
]

LEAST_CONTROLLERS = 3
"""Of two, the other one's etcd has no majority alone."""
_SSH_SECONDS = 15.0
_NEED_ALL = {
    "etcd": "etcd's image is changed one member at a time, while all members are healthy",
    "playbook": "the playbook's changes would be missing on that controller",
    "nodes": "nodes are upgraded by playbooks, which need every controller",
    "surge": "nodes are upgraded by playbooks, which need every controller",
}
"""What a run can't do without one of the controllers, by the kind of its step, and why."""


def is_down(kube: Kube, hosts: Hosts, host: Host, node: KubeObject | None) -> bool:
    """Whether a controller is down, as independent ways say: its kubelet has been silent for so long that
    kube-controller-manager marked its node, nothing answers SSH there, and its kube-apiserver doesn't serve. Unknown is
    not down. Raises ApiError.
    """
    if node is None or not is_unreachable(node):
        return False
    try:
        hosts.run(host, ["true"], timeout_seconds=_SSH_SECONDS)
    except HostSilent:
        return not serves(kube, {str(each.get("address")) for each in node.get("status", {}).get("addresses") or ()})
    except HostError:
        return False  # something answers there, or it isn't known: as with a host key that has changed
    return False


def down_controllers(kube: Kube, hosts: Hosts, cluster: Cluster) -> tuple[str, ...]:
    """The controllers that are down, by name. Raises ApiError."""
    return tuple(host.name for host in cluster.controllers if is_down(kube, hosts, host, kube.get(NODES, host.name)))


def serves(kube: Kube, addresses: Collection[str]) -> bool:
    """Whether a kube-apiserver at one of these addresses announces itself in etcd: if it doesn't for 15 s, the others
    remove its address from this object, which only they write. Raises ApiError.
    """
    slices = kube.get(ENDPOINT_SLICES, "kubernetes", "default") or {}
    served = {address for each in slices.get("endpoints") or () for address in each.get("addresses") or ()}
    return not served.isdisjoint(addresses)


def left_out_of(kube: Kube, cluster: Cluster) -> dict[str, LeftOut]:
    """The controllers of the inventory whose nodes are marked as left out, by name. Raises ApiError."""
    nodes = {host.name: kube.get(NODES, host.name) for host in cluster.controllers}
    marks = {name: LeftOut.of(node) for name, node in nodes.items() if node is not None}
    return {name: mark for name, mark in marks.items() if mark is not None}


def may_be_left_out(cluster: Cluster, down: Collection[str]) -> bool:
    """Whether a run could do without these controllers: it is one, and at least two remain."""
    return len(down) == 1 and len(cluster.controllers) >= LEAST_CONTROLLERS


def told_as_down(context: PreflightContext, down: Collection[str]) -> Iterator[Finding]:
    """One finding for each of these controllers, with all ways on."""
    names = [host.name for host in context.cluster.controllers]
    for name in (each for each in names if each in down):
        node = context.nodes[name]
        ready = next(item for item in node["status"]["conditions"] if item["type"] == "Ready")
        since = f" since {ready['lastTransitionTime']}" if "lastTransitionTime" in ready else ""
        ways = [f"Repair it. Or remove it permanently: upgrader controllers remove {name} --dead"]
        if may_be_left_out(context.cluster, down):
            others = first_few([each for each in names if each != name])
            how = "`upgrader run` does that first" if context.leaves_out else "set `policy.degraded: allow`"
            idle = context.plan is not None and all(step.action == "unchanged" for step in context.plan.steps)
            ways.append(
                "Nothing would be upgraded, so the run doesn't leave it out."
                if context.leaves_out and idle
                else f"Or upgrade only {others} for now, and leave it out until it is back: {how}."
            )
        yield Finding(
            "nodes.down",
            "error",
            f"controller {name} is down{since}",
            "Its kubelet doesn't report, and its machine doesn't answer over SSH. The machine may be powered off, or "
            "only disconnected from the network. The state of its kube-apiserver, its etcd member and its disk is "
            "unknown.",
            "\n".join(ways),
        )


def check_left_out(context: PreflightContext) -> Iterator[Finding]:
    """A run without a controller needs one that is still down, a majority of etcd, and no step that needs all."""
    for name, mark in context.left_out.items():
        node = context.nodes.get(name)
        if node is None:
            continue
        yield from _marked(context, name, mark, node)
        yield from _too_far(context, name, mark)
        for step in context.plan.steps if context.plan else ():
            if step.kind in _NEED_ALL and step.action != "unchanged":
                yield Finding(
                    "nodes.needs-all",
                    "error",
                    f"step {step.name} needs all controllers, but controller {name} is left out of runs",
                    f"Reason: {_NEED_ALL[step.kind]}.",
                    f"Bring {name} back, then: upgrader resume. Or leave that step out of upgrader.yaml until then.",
                )
    if context.left_out and (problem := etcd_problem(context.facts, context.cluster)):
        yield Finding(
            "nodes.no-quorum",
            "error",
            f"etcd isn't healthy enough for a run without {first_few(sorted(context.left_out))}: {problem}",
            "All remaining members must be healthy: if one fails, etcd loses its quorum, and the API goes down.",
            "Repair etcd on these controllers first.",
        )


def relabelled(node: KubeObject) -> bool:
    """Whether pods of the control plane may be placed on a controller that is left out, as its node has its label
    again: kubeadm, a GitOps tool or a person gave it back. One that is only to be left out has no mark yet.
    """
    mark = LeftOut.of(node)
    return mark is not None and mark.phase != "returning" and CONTROL_PLANE in (node["metadata"].get("labels") or {})


def refuse_relabelled(kube: Kube, left_out: Collection[str]) -> None:
    """Raises Blocked for a controller that is left out, and whose node has its label again."""
    for name in left_out:
        node = kube.get(NODES, name)
        if node is not None and relabelled(node):
            raise Blocked(
                f"controller {name} is left out of runs, but its node has the label {CONTROL_PLANE} again: pods of the "
                "control plane may be placed there, where no gate checks them; nothing was changed",
                remedy=_unlabel(name),
            )


def _unlabel(name: str) -> str:
    return (
        f"kubectl label node {name} {CONTROL_PLANE}-, and find out what set it. `upgrader resume` restores it when the "
        "controller is back."
    )


def half_left_out(phase: LeftOutPhase) -> tuple[str, str]:
    """What was interrupted where a mark isn't `out`, and the command that completes it."""
    if phase == "returning":
        return "its return was interrupted", "To complete it: upgrader resume"
    return (
        "leaving it out was interrupted",
        "To complete it: upgrader run. If the controller is back: upgrader resume",
    )


def _marked(context: PreflightContext, name: str, mark: LeftOut, node: KubeObject) -> Iterator[Finding]:
    if relabelled(node):
        yield Finding(
            "nodes.relabelled",
            "error",
            f"controller {name} is left out of runs, but its node has the label {CONTROL_PLANE} again",
            "Pods of the control plane may be placed there, where no gate checks them.",
            _unlabel(name),
        )
    if mark.phase != "out":
        how = half_left_out(mark.phase)
        yield Finding("nodes.half-left-out", "error", f"controller {name}: {how[0]}", "", how[1])
    elif not is_unreachable(node) and context.upgrade_to_resume:
        # A return comes only behind the end of that upgrade: without this, neither could have a new one before it.
        yield Finding(
            "nodes.left-out",
            "warning",
            f"controller {name} is back, but this run still leaves it out",
            f"{name} can only be brought back once upgrade {context.upgrade_to_resume} is complete. This run starts "
            f"from the state in which that upgrade stopped. Until {name} is brought back, it keeps {mark.span}, which "
            "may serve requests.",
            f"Once this run has succeeded, upgrade {name}, too: upgrader resume",
        )
    elif not is_unreachable(node):
        yield Finding(
            "nodes.returned",
            "error",
            f"controller {name} was left out of runs, and is back",
            "It may still run its previous version.",
            "First upgrade it to the version of the other controllers: upgrader resume",
        )
    else:
        yield Finding(
            "nodes.left-out",
            "warning",
            f"controller {name} is down, and the run leaves it out",
            f"It keeps {mark.span}: when it comes back, the pod-checkpointer may start kube-apiserver at that "
            "version. etcd has no spare member: if another controller goes down, so does the API.",
            f"When {name} is back: upgrader resume. If it is permanently gone: upgrader controllers remove "
            f"{name} --dead",
        )


def _too_far(context: PreflightContext, name: str, mark: LeftOut) -> Iterator[Finding]:
    """kube-apiservers may be one minor apart, and its own may start at any moment, in each version that it has."""
    apart = context.target.minors_after(mark.version) if mark.version else None
    ahead = mark.newest.minors_after(context.target) if mark.newest else 0
    patch = apart is None and context.target.minors_after(context.observed.server) == 0
    if (apart not in (0, 1) and not patch) or ahead > 1:
        yield Finding(
            "nodes.left-out-skew",
            "error",
            f"{context.target} is too far from the version of controller {name}, which was left out at "
            f"{mark.span if mark.version else 'an unknown version'}",
            "Its kube-apiserver may start alongside the others at any time, and all instances must be within one "
            "minor version.",
            f"Bring {name} back, then: upgrader resume. If it is permanently gone: upgrader controllers remove {name} "
            "--dead",
        )


def etcd_problem(facts: Mapping[str, HostFacts], cluster: Cluster) -> str:
    """What is wrong with etcd's members on these controllers; "" where each is healthy and they are a majority, or
    where etcd runs elsewhere.
    """
    if unknown := [host.name for host in cluster.controllers if host.name not in facts]:
        return f"{first_few(unknown)} could not be examined"
    here = {name: item.etcd.server for name, item in facts.items() if item.has_etcd}
    voters: set[str] = set()
    for name, server in here.items():
        if isinstance(server, Unknown):
            return f"its member on {name} doesn't answer: {server.why}"
        if not server.healthy:
            return f"its member on {name} is not healthy: {server.said}"
        if isinstance(server.members, Unknown):
            return f"its member on {name} doesn't list the others: {server.members.why}"
        voters |= {member.id for member in server.members if not member.learner}
    healthy = {server.id for server in here.values() if isinstance(server, EtcdServer)} & voters
    needed = len(voters) // 2 + 1 if here else 0
    return (
        f"{len(healthy)} of {len(voters)} members are healthy, but {needed} are needed" if len(healthy) < needed else ""
    )
