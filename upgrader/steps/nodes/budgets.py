"""Names the disruption budget that doesn't let a pod go."""

from __future__ import annotations

import re
from typing import Any

from upgrader.errors import ApiError
from upgrader.model.workload import selects
from upgrader.ports import Kube, KubeObject
from upgrader.steps.nodes.api_resources import BUDGETS
from upgrader.steps.nodes.pods_to_drain import DrainedPod

__all__ = ["by_webhook", "why_refused"]

_BUDGET = re.compile(r"disruption ?budget", re.IGNORECASE)
"""In each of the API server's sentences about one. A busy API server answers 429, too, and a failed one 500."""
_WEBHOOK = "webhook"
"""In each of the API server's sentences about one: `admission webhook "…" denied the request`, `failed calling …`."""


def by_webhook(error: ApiError) -> bool:
    """Whether an eviction was refused by a webhook, or because one could not be called, whatever the status."""
    return _WEBHOOK in error.message


def why_refused(kube: Kube, pod: DrainedPod, error: ApiError) -> str:
    """Why the eviction of a pod was refused, in one sentence: by which budgets; else in the API server's words, which
    name the webhook that has refused it, if one has.
    """
    if error.status not in (429, 500):
        return f"pod {pod} can't be evicted: {error.message}"
    by_budget = _BUDGET.search(error.message) and not by_webhook(error)
    budgets = [item for item in kube.list(BUDGETS, pod.namespace) if _covers(item, pod)] if by_budget else []
    if not budgets:
        return f"pod {pod} can't be evicted now: {error.message}"
    if len(budgets) > 1:
        names = ", ".join(f"{pod.namespace}/{item['metadata']['name']}" for item in budgets)
        return f"pod {pod} can't be evicted: several PodDisruptionBudgets select it: {names}"
    return f"{_described(budgets[0], pod)} doesn't allow the eviction of pod {pod}"


def _covers(budget: KubeObject, pod: DrainedPod) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selects(selector, pod.labels)


def _described(budget: KubeObject, pod: DrainedPod) -> str:
    spec: dict[str, Any] = budget.get("spec") or {}
    status: dict[str, Any] = budget.get("status") or {}
    limit = ", ".join(f"{key} {spec[key]}" for key in ("minAvailable", "maxUnavailable") if key in spec)
    counts = f"{status.get('currentHealthy', 0)} of {status.get('expectedPods', 0)} pods are healthy"
    return f"PodDisruptionBudget {pod.namespace}/{budget['metadata']['name']} ({limit}; {counts})"
