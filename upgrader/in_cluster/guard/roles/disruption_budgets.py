"""Reads Kubernetes' own PodDisruptionBudgets, so that an eviction that one refuses reserves nothing.

From the API itself: a cache might refuse what is allowed by then, or miss a budget that was just applied. The list of a
large namespace takes milliseconds of CPU time. So of the evictions that come while it is being read, all share the next
list, which begins after they have come; and only budgets that may select one of their pods are looked at further.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from upgrader.in_cluster.guard.core.admission import TOO_MANY_REQUESTS, Answer, deny
from upgrader.in_cluster.guard.core.disruption_budget import DisruptionBudget, is_limited, reader, refusal
from upgrader.in_cluster.guard.core.workloads import Pod
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["DISRUPTION_BUDGETS", "DisruptionBudgets"]

DISRUPTION_BUDGETS = Resource("policy/v1", "poddisruptionbudgets")
_LIST_SECONDS = 3.0
"""Then a list is given up: evictions that come later wait for its end, and have little more time themselves."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    pod: Pod
    found: asyncio.Future[Sequence[DisruptionBudget]]


class DisruptionBudgets:
    """Of one cluster; one for all of a process, in one event loop."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting: dict[str, list[_Waiting]] = {}
        self._listing: dict[str, asyncio.Task[None]] = {}
        self._logged: dict[str, str] = {}
        """By namespace: why its budgets can't be read."""

    async def denial(self, pod: Pod, seconds: float) -> Answer | None:
        """What the API server is going to deny the pod's eviction with; None if it isn't, or if that can't be found out
        within `seconds`: the API server asks them itself, and the eviction only keeps its place until it is settled.
        """
        if not is_limited(pod):
            return None
        try:
            async with asyncio.timeout(seconds):
                budgets = await self._selecting(pod)
        except (ApiAway, ApiRefused, TimeoutError) as error:
            self._log(pod.namespace, str(error) or "no answer in time")
            return None
        self._logged.pop(pod.namespace, None)
        why = refusal(pod, budgets)
        return deny(TOO_MANY_REQUESTS, why) if why else None

    async def _selecting(self, pod: Pod) -> Sequence[DisruptionBudget]:
        """At least those that select the pod, as they are after this call. Raises ApiAway, ApiRefused."""
        mine = _Waiting(pod, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(pod.namespace, []).append(mine)
        if pod.namespace not in self._listing:
            self._listing[pod.namespace] = asyncio.ensure_future(self._list(pod.namespace))
        return await mine.found

    async def _list(self, namespace: str) -> None:
        """As long as evictions wait: those that come meanwhile have the next list."""
        try:
            while waiting := [each for each in self._waiting[namespace] if not each.found.done()]:
                self._waiting[namespace] = []
                try:
                    keep = reader([each.pod for each in waiting])
                    async with asyncio.timeout(_LIST_SECONDS):
                        items, _ = await everything(self._api, DISRUPTION_BUDGETS, namespace, {}, keep)
                except Exception as error:  # noqa: BLE001 - those that wait get any error
                    for each in waiting:
                        if not each.found.done():
                            each.found.set_exception(error)
                    continue
                budgets = [each for each in items if each is not None]
                for each in waiting:
                    if not each.found.done():
                        each.found.set_result(budgets)
        finally:
            del self._listing[namespace], self._waiting[namespace]

    def _log(self, namespace: str, reason: str) -> None:
        """Once for each reason: drains ask every few seconds."""
        if self._logged.get(namespace) != reason:
            kept = "meanwhile, an eviction that a PodDisruptionBudget refuses reserves its place for a minute"
            extra = {"namespace": namespace, "reason": reason, "result": kept}
            LOG.warning("PodDisruptionBudgets can't be read", extra=extra)
        self._logged[namespace] = reason
