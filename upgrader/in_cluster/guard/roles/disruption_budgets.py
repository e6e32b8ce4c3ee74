"""Reads Kubernetes' own PodDisruptionBudgets, so that an eviction that one refuses reserves nothing."""

from __future__ import annotations

import asyncio

from upgrader.in_cluster.guard.core.admission import TOO_MANY_REQUESTS, Answer, deny
from upgrader.in_cluster.guard.core.disruption_budget import read, refusal
from upgrader.in_cluster.guard.core.workloads import Pod
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["DISRUPTION_BUDGETS", "DisruptionBudgets"]

DISRUPTION_BUDGETS = Resource("policy/v1", "poddisruptionbudgets")


class DisruptionBudgets:
    """Of one cluster, as its API has them now: a cache might refuse what is allowed by then."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._logged: dict[str, str] = {}
        """By namespace: why its budgets can't be read."""

    async def denial(self, pod: Pod, seconds: float) -> Answer | None:
        """What the API server is going to deny the pod's eviction with; None if it isn't, or if that can't be found out
        within `seconds`: the API server asks them itself, and the eviction only keeps its place until it is settled.
        """
        try:
            async with asyncio.timeout(seconds):
                budgets, _ = await everything(self._api, DISRUPTION_BUDGETS, pod.namespace, {}, read)
        except (ApiAway, ApiRefused, TimeoutError) as error:
            self._log(pod.namespace, str(error) or "no answer in time")
            return None
        self._logged.pop(pod.namespace, None)
        why = refusal(pod, budgets)
        return deny(TOO_MANY_REQUESTS, why) if why else None

    def _log(self, namespace: str, reason: str) -> None:
        """Once for each reason: drains ask every few seconds."""
        if self._logged.get(namespace) != reason:
            kept = "an eviction that one refuses keeps its place for a minute"
            extra = {"namespace": namespace, "reason": reason, "result": kept}
            LOG.warning("PodDisruptionBudgets can't be read", extra=extra)
        self._logged[namespace] = reason
