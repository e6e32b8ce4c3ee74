"""ZoneAwarePodDisruptionBudgets: their reservations in `.status.reservations`, and decisions by the present zones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upgrader.in_cluster.guard.core.ledger import Judgement, Ledger, Request
from upgrader.in_cluster.guard.core.rollout import pods_by_owner
from upgrader.in_cluster.guard.core.workloads import Pod, stateful_set
from upgrader.in_cluster.guard.core.zone_budget import InvalidBudget, Rollout, State, ZoneBudget, budget_of, judge, read
from upgrader.in_cluster.guard.roles.direct_read import pods_of, selector_query, stateful_sets
from upgrader.in_cluster.guard.roles.ledger_writer import Judge
from upgrader.in_cluster.guard.roles.seen_pods import SeenPods
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["ZONE_BUDGETS", "RolloutRequest", "ZoneBudgetBooks", "ledger_of"]

ZONE_BUDGETS = Resource("rollout-operator.grafana.com/v1", "zoneawarepoddisruptionbudgets")


@dataclass(frozen=True)
class RolloutRequest(Request):
    """A pod that a rollout wants to delete."""

    rollout: Rollout | None = None


def ledger_of(item: Object) -> Ledger:
    """The reservations of a budget."""
    return Ledger.of(_status(item).get("reservations"))


def _status(item: Object) -> Mapping[str, Any]:
    """A definition of others may have stored what is no object: nothing is reserved in it, and it is replaced."""
    found = item.get("status")
    return found if isinstance(found, dict) else {}


class ZoneBudgetBooks:
    """Zones are read from the API itself for each decision: a cache may know less than the reservations assume."""

    resource = ZONE_BUDGETS

    def __init__(self, api: Api, seen: SeenPods) -> None:
        self._api, self._seen = api, seen

    def book_of(self, item: Object) -> Ledger:
        """See `Books`; the methods below as well."""
        return ledger_of(item)

    def status_of(self, item: Object, book: Ledger) -> Mapping[str, Any]:
        """The number is for `kubectl get`, whose columns can't count."""
        reservations = book.status()
        return {**_status(item), "reserved": len(reservations), "reservations": reservations}

    async def judge_of(self, item: Object, requests: Sequence[Request], now: float) -> Judge[Ledger]:
        """By the present budget, which may differ from when its pod was looked up."""
        budget = read(item)
        pods, state = await self._zones(budget)

        def judged(request: Request, ledger: Ledger) -> Judgement:
            subject = pods.get(request.pod.uid, request.pod)
            mine = budget_of(subject, [budget])
            if isinstance(mine, Judgement):
                return mine
            rollout = request.rollout if isinstance(request, RolloutRequest) else None
            return judge(subject, mine, state, ledger, now, rollout)

        return judged

    def tried(self, requests: Sequence[Request]) -> None: ...

    def given_back(self, book: Ledger, request: Request) -> Ledger:
        """All of its reservations: a request is for one pod."""
        return book.give_back({request.id})

    async def _zones(self, budget: ZoneBudget | InvalidBudget) -> tuple[dict[str, Pod], State]:
        """The pods by UID, and the decision by the budget; an invalid budget has none."""
        if isinstance(budget, InvalidBudget):
            return {}, State((), {})
        found = await stateful_sets(self._api, budget.namespace, selector_query({"matchLabels": budget.selector}))
        pods = await pods_of(self._api, budget.namespace, found)
        sets = tuple(map(stateful_set, found))
        by_uid = {each.uid: each for each in pods}
        ready_for = {uid: seconds for uid in by_uid if (seconds := self._seen.ready_for(uid)) is not None}
        return by_uid, State(sets, pods_by_owner(sets, pods), self._seen.evicted, ready_for)
