"""Asks the zone-aware budget of a pod whether the pod may be deleted: for evictions, and for rollouts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

from upgrader.in_cluster.guard.core.admission import (
    CONFLICT,
    NOT_FOUND,
    AdmissionRequest,
    Answer,
    allow,
    deny,
    names_one_pod,
    unmet_precondition,
)
from upgrader.in_cluster.guard.core.ledger import OF_ONE_POD, OF_ROLLOUTS, Judgement, Request, Reservation, settled
from upgrader.in_cluster.guard.core.workloads import Pod, pod
from upgrader.in_cluster.guard.core.zone_budget import ZoneBudget, budget_of, misdirected, validate
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, GuardError, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.disruption_budgets import DisruptionBudgets
from upgrader.in_cluster.guard.roles.ledger_writer import LedgerWriter
from upgrader.in_cluster.guard.roles.other_budgets import OtherBudgets
from upgrader.in_cluster.guard.roles.seen_pods import SeenPods
from upgrader.in_cluster.guard.roles.workload_cache import PODS
from upgrader.in_cluster.guard.roles.zone_budget_books import ZoneBudgetBooks
from upgrader.in_cluster.guard.roles.zone_budget_cache import ZoneBudgetCache
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Key
from upgrader.in_cluster.guard.runtime.metrics import Metrics

__all__ = ["EVICTION_PATH", "VALIDATION_PATH", "ZoneBudgets", "validated"]

EVICTION_PATH = "/admission/pod-eviction"
VALIDATION_PATH = "/admission/zpdb-validation"
_SETTLE_SECONDS = 5.0
_OTHERS_SHARE = 0.2
"""Of the time that is left, for each other kind of budget; then it isn't known what they say."""


class ZoneBudgets:
    """For some namespaces."""

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        metrics: Metrics,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        disruptions: DisruptionBudgets | None = None,
    ) -> None:
        """`seconds`: how long a budget may take to answer. `clock` measures durations; `now`: since the epoch.
        `disruptions`: the same that others of the process ask.
        """
        self._api, self._metrics, self._seconds, self._clock = api, metrics, seconds, clock
        self.cache, self.pods = ZoneBudgetCache(api, namespaces, metrics), SeenPods(api, namespaces, clock)
        self.others = OtherBudgets(disruptions or DisruptionBudgets(api), _OTHERS_SHARE)
        """Asked before an eviction is reserved."""
        self._writer = LedgerWriter(api, ZoneBudgetBooks(api, self.pods), clock=now)
        self._noticed: dict[str, dict[Reservation, float]] = {}
        """By namespace: when each was first seen."""

    def keeps(self, namespace: str) -> bool:
        """Whether its budgets are evaluated."""
        return namespace in self.cache.informers

    async def evict(self, request: AdmissionRequest) -> Answer:
        """The answer to an eviction. Raises ApiAway, ApiRefused."""
        return (await self._counted(self._evict(request))).answer

    async def refusal(self, request: AdmissionRequest, which: Pod) -> Answer | None:
        """What the eviction of this pod would be denied with now; None if it wouldn't, or if that isn't known: then
        their own webhook decides, which is asked too. Reserves nothing, and isn't counted.
        """
        if not self.keeps(which.namespace):
            return None
        try:
            answer = (await self._judged(Request(_name(request), which, dry_run=True))).answer
        except (ApiAway, ApiRefused):
            return None
        return None if answer.allowed else answer

    async def ask(self, request: Request) -> Judgement:
        """The decision of the pod's budget; it reserves unless that is a dry run. Raises ApiAway, ApiRefused."""
        return await self._counted(self._judged(request))

    async def give_back(self, request: Request) -> None:
        """Free what `ask` has reserved for this request, which certainly deletes nothing; if that isn't possible, it
        expires after a while.
        """
        try:
            budget = budget_of(request.pod, await self.cache.of(request.pod.namespace))
        except (ApiAway, ApiRefused) as error:
            LOG.warning("a reservation can't be released", extra={"pod": request.pod.name, "reason": str(error)})
            return
        if isinstance(budget, ZoneBudget):
            await self._writer.give_back((budget.namespace, budget.name), request)

    def reserved_by_evictions(self, namespace: str) -> frozenset[str]:
        """UIDs of the pods with reservations of clients other than rollouts, or of unknown clients."""
        ledgers = (each.ledger for each in self.cache.known(namespace))
        found = (each for ledger in ledgers for each in ledger.reservations.values())
        return frozenset(r.uid for r in found if not all(name.startswith(OF_ROLLOUTS) for name in r.requests))

    async def run(self) -> None:
        """Follow the budgets and the pods, and free reservations that are no longer needed, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cache.run())
            group.create_task(self._follow_pods())
            for namespace in self.cache.informers:
                group.create_task(self._settle_from_time_to_time(namespace))

    async def _follow_pods(self) -> None:
        """Once there is the kind: before that, there are no budgets, and guard may lack the right to watch pods."""
        await self.cache.installed()
        async with asyncio.TaskGroup() as group:
            for informer in self.pods.informers:
                group.create_task(informer.run())

    async def _settle_from_time_to_time(self, namespace: str) -> None:
        while True:
            await asyncio.sleep(_SETTLE_SECONDS)
            await self._settle(namespace)

    async def settle(self) -> None:
        """Free the reservations that this process has known for long enough.

        Each namespace by itself: where users write their budgets all the time, freeing takes until its deadline.
        """
        await asyncio.gather(*map(self._settle, self.cache.informers))

    async def _settle(self, namespace: str) -> None:
        now, before = self._clock(), self._noticed.get(namespace, {})
        ledgers = {(each.namespace, each.name): each.ledger for each in self.cache.known(namespace)}
        there = {each for ledger in ledgers.values() for each in ledger.reservations.values()}
        self._noticed[namespace] = noticed = {each: before.get(each, now) for each in there}
        for budget, ledger in ledgers.items():
            if old := settled(ledger, noticed, now):
                await self._free(budget, old)

    async def _free(self, budget: Key, old: Collection[Reservation]) -> None:
        try:
            await self._writer.change(budget, lambda book: book.without_these(old), self._seconds)
        except (ApiAway, ApiRefused) as error:
            LOG.warning("reservations can't be released", extra={"budget": "/".join(budget), "reason": str(error)})

    async def _evict(self, request: AdmissionRequest) -> Judgement:
        until = self._clock() + self._seconds
        if refused := misdirected(request):
            return Judgement(refused, "invalid-request")
        namespace = request.namespace
        if not self.keeps(namespace):
            return Judgement(allow(f"guard evaluates no zone-aware budgets in the namespace {namespace}"), "not-kept")
        budgets = await self.cache.of(namespace)
        if not budgets:
            return Judgement(allow(), "pod-not-in-scope")
        # Any client can send a request: only the pod in the API counts.
        found = await self._api.get(PODS, request.name, namespace)
        # The API server's own answers, said now: it looks later, when the name may have another pod, or the pod another
        # resourceVersion.
        if found is None:
            return Judgement(deny(NOT_FOUND, f"pod {namespace}/{request.name} doesn't exist"), "pod-not-found")
        if unmet := unmet_precondition(request, found):
            what = f"pod {namespace}/{request.name} doesn't have {unmet}, which the eviction requires"
            return Judgement(deny(CONFLICT, what), "pod-not-found")
        asked = Request(_name(request), pod(found), request.dry_run)
        budget = budget_of(asked.pod, budgets)
        if isinstance(budget, ZoneBudget) and (
            denied := await self.others.denial(request, asked.pod, until - self._clock())
        ):
            return Judgement(denied, "denied")
        return await self._judged_by(budget, asked, until - self._clock())

    async def _judged(self, request: Request) -> Judgement:
        budget = budget_of(request.pod, await self.cache.of(request.pod.namespace))
        return await self._judged_by(budget, request, self._seconds)

    async def _judged_by(self, budget: ZoneBudget | Judgement, request: Request, seconds: float) -> Judgement:
        if isinstance(budget, Judgement):
            return budget
        try:
            return await self._writer.ask((budget.namespace, budget.name), request, seconds)
        except NotFound:  # it was deleted meanwhile
            return Judgement(allow(), "pod-not-in-scope")

    async def _counted(self, judging: Awaitable[Judgement]) -> Judgement:
        with self._metrics.evictions_in_flight.track_inprogress():
            try:
                judged = await judging
            except GuardError:
                self._metrics.evictions.labels("failed", "500").inc()
                raise
        self._metrics.evictions.labels(judged.why, str(judged.answer.code or 200)).inc()
        return judged


def _name(request: AdmissionRequest) -> str:
    return f"{OF_ONE_POD}{request.uid}" if names_one_pod(request) else request.uid


async def validated(request: AdmissionRequest) -> Answer:
    """Whether a budget may be stored."""
    return validate(request)
