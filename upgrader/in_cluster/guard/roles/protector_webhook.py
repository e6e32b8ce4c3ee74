"""PREFIX/CELL: a pod of the cell may be deleted or evicted only if each PodProtector that selects it allows this."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from upgrader.in_cluster.guard.core.admission import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    AdmissionRequest,
    Answer,
    NotAnAdmissionReview,
    allow,
    deny,
    unmet_precondition,
)
from upgrader.in_cluster.guard.core.ledger import Judgement, Request, refusal
from upgrader.in_cluster.guard.core.protector import (
    Protector,
    ProtectorRequest,
    judge,
    lost_already,
    misdirected,
    pod_of_delete,
    request_for,
)
from upgrader.in_cluster.guard.core.protector_object import InvalidProtector, status
from upgrader.in_cluster.guard.core.workloads import Pod, pod
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, NotFound
from upgrader.in_cluster.guard.roles.disruption_budgets import DisruptionBudgets
from upgrader.in_cluster.guard.roles.ledger_writer import Judge, LedgerWriter, Memory, all_agree
from upgrader.in_cluster.guard.roles.other_budgets import OtherBudgets
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, ProtectorCache, Unreadable
from upgrader.in_cluster.guard.roles.silent_cells import SilentCells
from upgrader.in_cluster.guard.roles.young_pods import YoungPods
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Key
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["CellWebhook", "ProtectorWriter", "unknown_cell"]

_UNMATCHED = Judgement(allow(), "Unmatched")
_OTHERS_SHARE = 0.5
"""Of the time that is left, for each other kind of budget; then it isn't known what they say."""


class _CannotRead(ApiRefused):
    """The protector was changed since the watch showed it."""

    def __init__(self, which: Unreadable) -> None:
        super().__init__(str(which), BAD_REQUEST)
        self.which = which


class _Books:
    """A PodProtector stores its own reservations."""

    def __init__(
        self, protectors: ProtectorCache, metrics: ProtectorMetrics, young: YoungPods, silent: SilentCells
    ) -> None:
        self._protectors, self._metrics, self._young, self._silent = protectors, metrics, young, silent
        self.tries: dict[str, int] = {}

    @property
    def resource(self) -> Resource:
        return POD_PROTECTORS

    def book_of(self, item: Object) -> Protector:
        try:
            return self._protectors.read(item)
        except InvalidProtector as error:
            raise _CannotRead(self._protectors.why_unreadable(item, str(error))) from error

    def status_of(self, item: Object, book: Protector) -> Mapping[str, Any]:
        return status(book, item.get("status"))

    async def judge_of(self, item: Object, requests: Sequence[Request], now: float) -> Judge[Protector]:
        def judged(request: Request, protector: Protector) -> Judgement:
            assert isinstance(request, ProtectorRequest)
            return judge(request, self._silent.left_out(self._young.still(protector), request.cell))

        return judged

    def tried(self, requests: Sequence[Request]) -> None:
        if requests:
            self._metrics.batch_size.observe(len(requests))
        for each in requests:
            self.tries[each.id] = self.tries.get(each.id, 0) + 1

    def given_back(self, book: Protector, request: Request) -> Protector:
        return book.give_back({request.id: request.pod.uid})


class ProtectorWriter(LedgerWriter[Protector]):
    """Asks protectors, and records what they allow; one for a process."""

    def __init__(
        self,
        core: Api,
        protectors: ProtectorCache,
        metrics: ProtectorMetrics,
        newest: Memory,
        young: YoungPods,
        silent: SilentCells,
    ) -> None:
        self._own, self._metrics = _Books(protectors, metrics, young, silent), metrics
        super().__init__(core, self._own, newest)

    async def ask(self, budget: Key, request: Request, seconds: float) -> Judgement:
        """As in all writers; a protector that has been deleted denies nothing."""
        begun, rejected = time.monotonic(), False
        assert isinstance(request, ProtectorRequest)
        try:
            judged = await self._asked(budget, request, seconds)
            rejected = not judged.answer.allowed
        finally:
            self._metrics.retries.observe(max(0, self._own.tries.pop(request.id, 1) - 1))
            labels = (request.cell, _kind(request.eviction), str(rejected).lower())
            self._metrics.pod_in_protector.labels(*labels).observe(time.monotonic() - begun)
        return judged

    async def look(self, budget: Key, request: Request, seconds: float) -> Judgement:
        """What `ask` would answer now; reserves nothing, and isn't counted."""
        try:
            return await self._asked(budget, replace(request, dry_run=True), seconds)
        finally:
            self._own.tries.pop(request.id, None)

    async def _asked(self, budget: Key, request: Request, seconds: float) -> Judgement:
        try:
            return await super().ask(budget, request, seconds)
        except NotFound:
            return _UNMATCHED
        except _CannotRead as changed:  # denied, as if the watch showed it already: failurePolicy might allow it
            return _unreadable(changed.which)


class CellWebhook:
    """For one cell. `worker`: its API."""

    def __init__(
        self,
        cell: str,
        worker: Api,
        protectors: ProtectorCache,
        writer: ProtectorWriter,
        metrics: ProtectorMetrics,
        seconds: float,
        *,
        is_own: bool = False,
        disruptions: DisruptionBudgets | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: how long an answer may take. `is_own`: guard itself runs in the cell's cluster, so that `worker`
        is certainly no other cluster's. `disruptions`: the same that others of the process ask.
        """
        self._cell, self._worker, self._protectors, self._writer = cell, worker, protectors, writer
        self._is_right = is_own
        """Whether `worker` is certainly the API of the cluster that asks."""
        self._metrics, self._seconds, self._clock = metrics, seconds, clock
        self.others = OtherBudgets(disruptions or DisruptionBudgets(worker), _OTHERS_SHARE)
        """Asked before an eviction is recorded."""

    async def __call__(self, request: AdmissionRequest) -> Answer:
        """Raises ApiAway or ApiRefused if no decision is possible; NotAnAdmissionReview."""
        begun, status_, cause = self._clock(), "Error", "Unknown"
        try:
            if refused := misdirected(request):
                status_ = "NotRelevant"
                return refused
            cause = _kind(request.subresource == "eviction")
            judged = await self._judged(request, begun + self._seconds)
            status_ = judged.why
            return judged.answer
        except (ApiAway, ApiRefused, NotAnAdmissionReview) as error:
            self._metrics.errors.labels(self._cell, type(error).__name__).inc()
            raise
        finally:
            self._metrics.requests.labels(self._cell, status_, cause).observe(self._clock() - begun)

    async def refusal(self, request: AdmissionRequest, which: Pod) -> Answer | None:
        """What the eviction of this pod would be denied with now; None if it wouldn't, or if that isn't known: then
        this webhook decides, which is asked too. Reserves nothing, and isn't counted.
        """
        asked, until = request_for(request, which, self._cell), self._clock() + self._seconds
        if lost_already(which, eviction=True, may_hang=asked.may_hang):
            return None
        try:
            selecting = self._selecting(which)
            judged = self._without_asking(which, selecting)
            for each in () if judged else selecting:
                judged = await self._writer.look((each.namespace, each.name), asked, until - self._clock())
                if refusal([judged]):
                    break
        except (ApiAway, ApiRefused):
            return None
        return judged.answer if judged and refusal([judged]) else None

    async def _judged(self, request: AdmissionRequest, until: float) -> Judgement:
        told = pod_of_delete(request) if request.operation == "DELETE" else None
        selecting = list[Protector]()
        if told is not None:
            if judged := lost_already(told, eviction=False):
                return judged
            selecting = self._selecting(told)
            if judged := self._without_asking(told, selecting):
                return judged
        # Any client that reaches the port can forge a request: nothing is written for a pod that the API doesn't have.
        name = told.name if told is not None else request.name
        item = await self._worker.get(PODS, name, request.namespace)
        found = None if item is None else pod(item)
        if found is None or (told is not None and found.uid != told.uid):
            gone = NOT_FOUND if told is None else CONFLICT
            return Judgement(self._missing(request, name, f"the UID {told.uid}" if told else "", gone), "NotFound")
        if item is not None and (unmet := unmet_precondition(request, item)):
            return Judgement(self._missing(request, name, unmet, CONFLICT), "NotFound")
        self._is_right = self._is_right or told is not None  # no two clusters have a pod of the same UID
        asked = request_for(request, found, self._cell)
        if judged := lost_already(found, eviction=asked.eviction, may_hang=asked.may_hang):
            return judged
        if told is None or told.labels != found.labels:
            selecting = self._selecting(found)
        if judged := self._without_asking(found, selecting):
            return judged
        if told is None and (denied := await self.others.denial(request, found, until - self._clock())):
            return Judgement(denied, "Rejected")
        budgets = [(p.namespace, p.name) for p in sorted(selecting, key=str)]
        judgements = await all_agree([(self._writer, each, asked) for each in budgets], until - self._clock())
        if refused := refusal(judgements):
            return refused
        audit = {key: value for each in judgements for key, value in each.answer.audit.items()}
        reserved = next((each for each in judgements if each.reserves), judgements[0])
        return Judgement(allow(audit=audit), reserved.why)

    def _selecting(self, found: Pod) -> list[Protector]:
        """Those that protect the pod, or count it. Raises ApiAway where there may be some that aren't known."""
        if reason := self._protectors.why_not(found.namespace):
            raise ApiAway(reason)
        return [p for p in self._protectors.possible(found.namespace, found.labels) if p.concerns(found.labels)]

    def _without_asking(self, found: Pod, selecting: Sequence[Protector]) -> Judgement | None:
        """The answer where no protector is asked: one that may select the pod can't be read, or none selects it. One
        that can't be read has no say about a pod that goes anyway: as long as it can't, it lets none go in place of the
        next pod.
        """
        if (which := self._protectors.unreadable(found.namespace, found.labels)) and not found.goes_anyway:
            return _unreadable(which)
        return None if selecting else _UNMATCHED

    def _missing(self, request: AdmissionRequest, name: str, state: str, code: int) -> Answer:
        """The answer about a pod that is gone, or was replaced or changed: it has no such UID or resourceVersion
        (`state`). The API server asks again, or would refuse with `code` itself: or two clusters have been confused,
        and nothing is known of the pod. Of an eviction of a pod that is gone, the API server would say 404, which
        drains take for done: it is said only where guard certainly reads the cell's own cluster.
        """
        which = f"pod {request.namespace}/{name}{f' with {state}' if state else ''}"
        where = f"the cluster that guard reads for the cell {self._cell} has no {which}: it was deleted or changed"
        if self._is_right:
            return deny(code, f"{where} since then, or the API server of another cluster calls the path of this cell")
        return deny(CONFLICT, f"{where} since then, or the kubeconfig of the cell is for another cluster")


async def unknown_cell(request: AdmissionRequest) -> Answer:
    """Every other path: raises NotAnAdmissionReview."""
    raise NotAnAdmissionReview(f"{request}: guard doesn't know this cell")


def _unreadable(which: Unreadable) -> Judgement:
    """`kubectl drain` gives up on 400, and retries 429: what guard corrects by itself is worth waiting for.

    Without a Retry-After, by which clients would wait in silence, and a controller with all of its workers.
    """
    code = TOO_MANY_REQUESTS if which.status else BAD_REQUEST
    return Judgement(deny(code, f"{which}: it {'selects' if which.selectors else 'may select'} this pod"), "Rejected")


def _kind(eviction: bool) -> str:
    return "EvictPod" if eviction else "DeletePod"
