"""Kubernetes' own PodDisruptionBudgets: whether the API server is certain to refuse an eviction because of one.

It looks at them after it has asked all webhooks. What guard has allowed by then stays reserved for a minute, as nothing
tells of the refusal; and a drain that tries again every few seconds would keep the place for as long as it tries. So
guard refuses such an eviction itself, as the API server would, and reserves nothing. If it isn't certain what the
API server is going to say, guard says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.in_cluster.guard.core.selectors import InvalidSelector, Selector
from upgrader.in_cluster.guard.core.workloads import Pod

__all__ = ["DisruptionBudget", "is_limited", "read", "reader", "refusal"]


@dataclass(frozen=True)
class DisruptionBudget:
    """A PodDisruptionBudget. `selector`: None if it selects nothing, or if that isn't known. `current`: its controller
    has seen its last change. `allowed`: how many pods may be evicted now; `frees_unready`: pods that aren't Ready
    always may.
    """

    namespace: str
    name: str
    selector: Selector | None
    current: bool
    allowed: int
    healthy: int
    desired: int
    frees_unready: bool

    def selects(self, pod: Pod) -> bool:
        """Whether its evictions are limited, as far as that is known."""
        return self.selector is not None and pod.namespace == self.namespace and self.selector.matches(pod.labels)

    def ignores(self, pod: Pod) -> bool:
        """Whether the pod may be evicted however many are: it isn't Ready, and the others are enough."""
        return pod.ready_since is None and (self.frees_unready or self.healthy >= self.desired > 0)


def is_limited(pod: Pod) -> bool:
    """Whether the API server asks a budget about the pod's eviction at all."""
    return pod.phase != "Pending" and not pod.goes_anyway


def reader(pods: Iterable[Pod]) -> Callable[[Mapping[str, Any]], DisruptionBudget | None]:
    """Reads the API's object; None if its budget certainly selects none of these pods: of hundreds, that costs least
    to find out.
    """
    labels = {label for pod in pods for label in pod.labels.items()}

    def kept(item: Mapping[str, Any]) -> DisruptionBudget | None:
        selector = (item.get("spec") or {}).get("selector")
        needed = (selector or {}).get("matchLabels") or {}
        return read(item) if labels.issuperset(needed.items()) else None

    return kept


def read(item: Mapping[str, Any]) -> DisruptionBudget:
    """A budget from the API's object, whose types the API server guarantees."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    return DisruptionBudget(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        selector=_selector(spec.get("selector")),
        current=status.get("observedGeneration", 0) >= metadata.get("generation", 0),
        allowed=status.get("disruptionsAllowed", 0),
        healthy=status.get("currentHealthy", 0),
        desired=status.get("desiredHealthy", 0),
        frees_unready=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
    )


def refusal(pod: Pod, budgets: Iterable[DisruptionBudget]) -> str:
    """Why the API server is going to refuse the pod's eviction; "" if it isn't, or if that isn't certain."""
    if not is_limited(pod):
        return ""
    mine = [each for each in budgets if each.selects(pod)]
    if len(mine) != 1 or mine[0].ignores(pod):
        return ""
    (budget,) = mine
    what = f"PodDisruptionBudget {budget.namespace}/{budget.name} allows no eviction of pod {pod.namespace}/{pod.name}"
    if not budget.current:
        return f"{what} now: its last change isn't processed yet"
    if budget.allowed > 0:
        return ""
    return f"{what} now: it needs {budget.desired} healthy pods, and has {budget.healthy}"


def _selector(content: object) -> Selector | None:
    """None for null, which selects nothing, and for one that guard can't read. An empty one selects all pods."""
    try:
        return Selector.of(content)
    except InvalidSelector:
        return None
