"""No PodDisruptionBudget refuses every eviction, because such a budget makes a drain impossible.

`upgrader` itself drains nothing; playbooks of a pipeline do, and so do those who upgrade kubelets after a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.workload import Pod, selector_of, selects
from upgrader.ports import Kind, Kube, KubeObject
from upgrader.preflight.context import MIRROR, PODS, SYSTEM, PreflightContext

__all__ = ["check_disruption_budgets"]

_BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
_OURS = {
    "kube-apiserver": re.compile(r"kube-apiserver-\d"),
    "kube-controller-manager": re.compile(r"kubernetes-\d"),
    "kube-scheduler": re.compile(r"kubernetes-\d"),
}
"""The budgets of our charts, and the label `helm.sh/chart` of what each chart makes: its name and version."""
_LISTS = 10
"""So many budgets of a namespace have their pods read one by one; for more, the namespace's pods are read once."""
_SEE = "kubectl get poddisruptionbudgets -A"


@dataclass(frozen=True)
class _Budget:
    """A PodDisruptionBudget: its spec, and the status from the disruption controller."""

    namespace: str
    name: str
    limit: str
    """As its spec has it: `minAvailable 1`."""
    selector: Mapping[str, Any] | None
    """None selects no pod, an empty one all of the namespace."""
    evicts_unhealthy: bool
    """Whether pods that aren't Ready may always be evicted (unhealthyPodEvictionPolicy AlwaysAllow)."""
    observed: bool
    """Whether the status is of the present spec."""
    failure: str
    """Why the controller can't compute the status; "" when it can."""
    allowed: int
    healthy: int
    desired: int
    """How many pods must be healthy."""
    expected: int
    """How many pods there should be."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def selects_nothing(self) -> bool:
        """Whether it certainly has no pods now."""
        return self.selector is None or (self.observed and not self.failure and not self.expected and not self.healthy)

    @classmethod
    def parse(cls, found: KubeObject) -> _Budget:
        """From a `policy/v1` PodDisruptionBudget."""
        meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
        failed: Mapping[str, Any] = next(
            (item for item in status.get("conditions") or () if item.get("reason") == "SyncFailed"), {}
        )
        return cls(
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            limit=", ".join(f"{key} {spec[key]}" for key in ("minAvailable", "maxUnavailable") if key in spec),
            selector=spec.get("selector"),
            evicts_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
            observed=int(status.get("observedGeneration", 0)) >= int(meta.get("generation", 0)),
            failure=str(failed.get("message") or "SyncFailed") if failed.get("status") == "False" else "",
            allowed=int(status.get("disruptionsAllowed", 0)),
            healthy=int(status.get("currentHealthy", 0)),
            desired=int(status.get("desiredHealthy", 0)),
            expected=int(status.get("expectedPods", 0)),
        )


def check_disruption_budgets(context: PreflightContext) -> Iterator[Finding]:
    """Budgets that never allow an eviction, allow none now, have an unknown status, or share their pods.

    Two budgets over one pod are found by its labels. Pods are read only where the selectors of two budgets in one
    namespace may match the same pod, and then those of the smaller one.
    """
    budgets = [
        _Budget.parse(found) for found in context.kube.each(_BUDGETS) if not _is_of_only_controller(context, found)
    ]
    yield from _without_room(budgets)
    yield from _unhealthy(budgets)
    yield from _unknown(budgets)
    shared = [text for group in _suspects(budgets) for text in _shared_pods(context.kube, *group)]
    if shared:
        yield Finding(
            "disruption-budgets.overlap",
            "warning",
            f"several PodDisruptionBudgets select the same pod: {first_few(shared)}",
            "The API server rejects evictions of such a pod (500), whatever the budgets allow: a drain never "
            "completes.",
            "Narrow their selectors, or delete all but one of them.",
        )


def _is_of_only_controller(context: PreflightContext, found: KubeObject) -> bool:
    """Whether it is our charts' budget of a component with a single instance. It prevents that instance's eviction on
    purpose: no control plane is drained from its only controller.
    """
    meta = found["metadata"]
    chart = _OURS.get(meta["name"]) if meta.get("namespace") == SYSTEM else None
    made_by = (meta.get("labels") or {}).get("helm.sh/chart", "")
    return len(context.cluster.controllers) == 1 and chart is not None and chart.match(made_by) is not None


def _is_settled(budget: _Budget) -> bool:
    """Whether its numbers are those of its present spec, and mean something."""
    return budget.observed and not budget.failure and budget.expected > 0


def _without_room(budgets: Iterable[_Budget]) -> Iterator[Finding]:
    full = [item for item in budgets if _is_settled(item) and item.allowed == 0 and item.desired >= item.expected]
    if full:
        named = first_few([f"{item} ({item.limit}: {item.desired} of {item.expected} must stay)" for item in full])
        yield Finding(
            "disruption-budgets.no-room",
            "warning",
            f"these PodDisruptionBudgets never allow an eviction: {named}",
            "All of their pods must stay Ready, so no eviction is ever allowed: a drain of their nodes never "
            "completes, unless a controller moves these pods itself (as KubeVirt does).",
            "Set maxUnavailable to at least 1, or minAvailable to less than the number of pods, or run more of them; "
            f"unless a controller moves these pods itself. {_SEE} shows all.",
        )


def _unhealthy(budgets: Iterable[_Budget]) -> Iterator[Finding]:
    short = [item for item in budgets if _is_settled(item) and item.allowed == 0 and item.desired < item.expected]
    # With fewer healthy pods than must be, the default policy (IfHealthyBudget) protects those that crash, too.
    stuck = [item for item in short if item.healthy < item.desired and not item.evicts_unhealthy]
    if short:
        named = first_few([f"{item} ({item.healthy} Ready, {item.desired} required)" for item in stuck or short])
        yield Finding(
            "disruption-budgets.unhealthy",
            "warning" if stuck else "info",
            f"these PodDisruptionBudgets allow no eviction of Ready pods now: {named}",
            "Their unhealthyPodEvictionPolicy is IfHealthyBudget, so even pods that aren't Ready can't be evicted: a "
            "drain waits until they are Ready."
            if stuck
            else "A drain of Ready pods waits until the others are also Ready.",
            "Fix the pods that aren't Ready. With unhealthyPodEvictionPolicy AlwaysAllow, they can be evicted.",
        )


def _unknown(budgets: Iterable[_Budget]) -> Iterator[Finding]:
    reasons = {str(item): reason for item in budgets if (reason := _why_unknown(item))}
    if reasons:
        yield Finding(
            "disruption-budgets.not-computed",
            "warning",
            f"the status of these PodDisruptionBudgets is unknown: {first_few(list(reasons))}",
            "\n".join(f"{name}: {reason}" for name, reason in list(reasons.items())[:_LISTS]),
            "Fix the budget, or check kube-controller-manager: until its status is known, no eviction is allowed. "
            f"{_SEE}",
        )


def _why_unknown(budget: _Budget) -> str:
    if not budget.observed:
        return "kube-controller-manager has not observed its current spec"
    if budget.failure:
        return budget.failure
    if budget.healthy and not budget.expected and not budget.allowed:
        return "its pods have no controller with a replica count; use an absolute number for minAvailable"
    return ""


def _suspects(budgets: Iterable[_Budget]) -> Iterator[tuple[Sequence[_Budget], Sequence[_Budget]]]:
    """For each namespace: the budgets with pods, and those of them whose pods show whether any are shared."""
    namespaces: dict[str, list[_Budget]] = {}
    for budget in budgets:
        if not budget.selects_nothing:
            namespaces.setdefault(budget.namespace, []).append(budget)
    for group in namespaces.values():
        # Of a pair, the one with fewer pods is read.
        group.sort(key=lambda item: item.expected if _is_settled(item) else math.inf)
        read = {str(one): one for one, other in combinations(group, 2) if not _are_disjoint(one, other)}
        if read:
            yield group, tuple(read.values())


def _are_disjoint(one: _Budget, other: _Budget) -> bool:
    """Whether no pod can match both: some label must have one value here, and another there."""
    here, there = _wanted(one.selector or {}), _wanted(other.selector or {})
    return any(not here[key] & there[key] for key in here.keys() & there.keys())


def _wanted(selector: Mapping[str, Any]) -> dict[str, set[str]]:
    """Label → the values of which it must have one."""
    wanted = {key: {value} for key, value in (selector.get("matchLabels") or {}).items()}
    for item in selector.get("matchExpressions") or ():
        if item["operator"] == "In":
            wanted[item["key"]] = wanted.get(item["key"], set(item["values"])) & set(item["values"])
    return wanted


def _shared_pods(kube: Kube, group: Sequence[_Budget], read: Sequence[_Budget]) -> Iterator[str]:
    """`NAMESPACE/POD (BUDGET, BUDGET)`, one for each set of budgets that share pods."""
    namespace = group[0].namespace
    selectors = [selector_of(budget.selector or {}) for budget in read] if len(read) <= _LISTS else [""]
    told: set[tuple[str, ...]] = set()
    for labels in selectors:
        for found in kube.each(PODS, namespace, labels=labels):
            pod = Pod.parse(found)
            names = tuple(sorted(budget.name for budget in group if selects(budget.selector or {}, pod.labels)))
            if len(names) > 1 and names not in told and _is_drained(pod, found):
                told.add(names)
                yield f"{namespace}/{pod.name} ({', '.join(names)})"


def _is_drained(pod: Pod, found: KubeObject) -> bool:
    """Whether a drain asks its budgets: not for one that ends or has yet to start, nor for a daemon or a static pod."""
    stays = pod.workload.startswith("DaemonSet ") or MIRROR in (found["metadata"].get("annotations") or {})
    return pod.phase == "Running" and not pod.deleting and not stays
