"""The planned nodes can be upgraded: the inventory lists them, and nothing blocks their drains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.kubelet_config import KUBELET_CONFIG_MAP
from upgrader.model.node_settings import CONTROLLERS
from upgrader.model.workload import selects
from upgrader.ports import KubeObject
from upgrader.preflight.context import PODS, SYSTEM, PreflightContext
from upgrader.steps.nodes.api_resources import BUDGETS
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.nodes.pods_to_drain import DrainedPod, pods_to_drain
from upgrader.steps.plan import planned_of

__all__ = ["check_node_upgrades"]

_POLICY = "`nodes.drain.onBlocked` in upgrader.yaml decides what the run then does"


@dataclass
class _Blocked:
    """What the drain of one pool's nodes meets."""

    step: PlannedNodes
    never: dict[str, str] = field(default_factory=dict)
    """Budget that allows no eviction, however healthy its pods are → one of its pods, and its node."""
    handled: dict[str, str] = field(default_factory=dict)
    """The same of one that its own controller lifts while a node is drained."""
    now: dict[str, str] = field(default_factory=dict)
    """The same of a budget that allows none now."""
    bare: list[str] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        """Whether the run would fail by it."""
        return self.step.pool.drain.on_blocked == "fail"


def check_node_upgrades(context: PreflightContext) -> Iterator[Finding]:
    """Nothing where the run upgrades no nodes."""
    steps = planned_of(context.plan, PlannedNodes)
    yield from _kubelet_config(context, steps)
    changing = [step for step in steps if step.nodes]
    if not changing:
        return
    yield from _inventory(context, changing)
    for blocked in _blocked(context, changing):
        yield from _drains(blocked)


def _kubelet_config(context: PreflightContext, steps: Sequence[PlannedNodes]) -> Iterator[Finding]:
    """All pools have the same configuration."""
    wanted, there = (steps[0].configuration.kubelet if steps else {}), context.observed.kubelet
    if not wanted or there is None:
        return
    try:
        there.having(wanted)
    except ValueError as error:
        yield Finding(
            "nodes.kubelet-config",
            "warning",
            f"ConfigMap {SYSTEM}/{KUBELET_CONFIG_MAP} can't get `nodes.kubeletConfiguration`: {error}",
            "The run leaves it unchanged: nodes that join later don't get these fields.",
            "Recreate it with kubeadm: kubeadm init phase upload-config kubelet --config FILE",
        )


def _inventory(context: PreflightContext, steps: list[PlannedNodes]) -> Iterator[Finding]:
    cluster = context.cluster
    for step in steps:
        group, hosts = ("controllers", cluster.controllers)
        if step.pool.name != CONTROLLERS:
            group, hosts = ("workers", cluster.workers)
        listed = {host.name for host in hosts}
        missing = [node.node for node in step.nodes if node.node not in listed]
        if missing:
            yield Finding(
                "nodes.not-in-inventory",
                "error",
                f"{first_few(missing)}: not in the inventory, but the run upgrades this node",
                "Ansible can't upgrade it.",
                f"Add it to the group `{group}` of the inventory, by the name of its node.",
            )


def _blocked(context: PreflightContext, steps: list[PlannedNodes]) -> tuple[_Blocked, ...]:
    """What each pool's drain meets, by one reading of the budgets and of all pods."""
    found = tuple(_Blocked(step) for step in steps)
    pools = {node.node: blocked for blocked in found for node in blocked.step.nodes}
    controllers = context.controllers
    budgets: dict[str, list[KubeObject]] = {}
    for budget in context.kube.each(BUDGETS, at_once=500):
        if not (budget.get("status") or {}).get("disruptionsAllowed"):
            budgets.setdefault(budget["metadata"]["namespace"], []).append(budget)
    for pod in context.kube.each(PODS, at_once=500):
        node = (pod.get("spec") or {}).get("nodeName", "")
        if node in pools:
            drained = pods_to_drain((pod,), controller=node in controllers)
            pools[node].bare += [f"{each} on {node}" for each in drained.bare]
            for each in drained.owned:
                _note_budgets(pools[node], each, node, pod, budgets)
    return found


def _note_budgets(
    blocked: _Blocked, pod: DrainedPod, node: str, found: KubeObject, budgets: Mapping[str, list[KubeObject]]
) -> None:
    if pod.ending or (found.get("status") or {}).get("phase") != "Running":
        return
    for budget in budgets.get(pod.namespace, ()):
        selector, status = budget["spec"].get("selector"), budget.get("status") or {}
        if selector is not None and selects(selector, pod.labels):
            never = status.get("expectedPods", 0) and status.get("desiredHealthy", 0) >= status["expectedPods"]
            name = f"{pod.namespace}/{budget['metadata']['name']}"
            lifted = any(key.startswith(_LIFTING) for key in selector.get("matchLabels") or ())
            kind = blocked.handled if never and lifted else blocked.never if never else blocked.now
            kind.setdefault(name, f"{name} (pod {pod} on {node})")


def _edit(budget: str) -> str:
    namespace, _, name = budget.partition("/")
    return f"kubectl -n {namespace} edit poddisruptionbudget {name}"


_LIFTING = ("longhorn.io/", "kubevirt.io/")
"""How the labels begin by which budgets choose pods that something evicts by itself when a node is drained:
https://github.com/longhorn/longhorn/blob/master/enhancements/20230307-pdb-for-longhon-csi-and-webhook.md
"""


def _drains(blocked: _Blocked) -> Iterator[Finding]:
    pool = blocked.step.pool
    waits = (
        f"The drain of a node of the pool {pool.name} times out after {pool.drain.deadline_seconds:.0f} s; {_POLICY}."
    )
    if blocked.never:
        yield Finding(
            "nodes.drain-blocked",
            "error" if blocked.fails else "warning",
            f"these PodDisruptionBudgets never allow the drain of a node: {first_few(list(blocked.never.values()))}",
            f"All of their pods must stay Ready. {waits}",
            "Set maxUnavailable to at least 1, or minAvailable to less than the number of pods, or run more of them: "
            f"{_edit(next(iter(blocked.never)))}",
        )
    if blocked.handled:
        yield Finding(
            "nodes.drain-lifted",
            "warning",
            "these PodDisruptionBudgets block evictions until their controller removes them: "
            f"{first_few(list(blocked.handled.values()))}",
            "Longhorn removes the budget of a node's instance manager once its volumes are detached, or have a "
            "healthy replica on another node. KubeVirt removes its budget once the virtual machine has moved. Never "
            f"edit such a budget. {waits}",
            "Make sure that the controller can do this: each volume needs a replica on another node (Longhorn's "
            "setting node-drain-policy), and each virtual machine must support live migration. Give the controller "
            "enough time: nodes.drain.deadline in upgrader.yaml.",
        )
    if blocked.now:
        yield Finding(
            "nodes.drain-waits",
            "warning",
            f"these PodDisruptionBudgets allow no eviction now: {first_few(list(blocked.now.values()))}",
            f"Too few of their pods are Ready, or kube-controller-manager hasn't updated their status. {waits}",
            "Fix the pods that aren't Ready: kubectl get poddisruptionbudgets -A",
        )
    if blocked.bare:
        lost = pool.drain.on_blocked == "force"
        yield Finding(
            "nodes.bare-pods",
            "error" if blocked.fails else "warning",
            f"pods without a controller are on nodes that are upgraded: {first_few(blocked.bare)}",
            f"An evicted pod without a controller isn't recreated. {'The policy allows that' if lost else _POLICY}.",
            "Delete them, or create them with a Deployment, StatefulSet or Job.",
        )
