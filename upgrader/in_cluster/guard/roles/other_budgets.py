"""What else denies an eviction of which one kind of budget is asked: PodDisruptionBudgets, and guard's other kind.

An eviction that another budget denies takes no place here: it is tried again all the time, and would keep the place
from all others. Of two pods that wait for each other's places, both would wait as long as they are evicted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer
from upgrader.in_cluster.guard.core.workloads import Pod
from upgrader.in_cluster.guard.roles.disruption_budgets import DisruptionBudgets

__all__ = ["Ask", "OtherBudgets"]

Ask = Callable[[AdmissionRequest, Pod], Awaitable[Answer | None]]
"""What budgets of a kind deny the eviction of this pod with; None if they don't, or if that isn't known. Must reserve
nothing, and ask no other kind.
"""


class OtherBudgets:
    """Asked once for each eviction. What isn't known of them decides nothing: the API server asks them all itself."""

    def __init__(self, disruptions: DisruptionBudgets, share: float) -> None:
        """`share`: of the time that is left, for each kind."""
        self._disruptions, self._share = disruptions, share
        self._kinds: list[Ask] = []

    def add(self, kind: Ask) -> None:
        """Guard's budgets of another kind."""
        self._kinds.append(kind)

    async def denial(self, request: AdmissionRequest, pod: Pod, seconds: float) -> Answer | None:
        """What one of them denies the pod's eviction with; None if none does, as far as is known in these seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if denied := await self._disruptions.denial(pod, self._share_of(until - loop.time())):
            return denied
        for ask in self._kinds:
            try:
                async with asyncio.timeout(self._share_of(until - loop.time())):
                    if denied := await ask(request, pod):
                        return denied
            except TimeoutError:
                continue
        return None

    def _share_of(self, left: float) -> float:
        return max(0.0, left) * self._share
