"""/admission/prepare-downscale: before a set gets fewer replicas, its last pods are told, or the request is denied.

The group's Lease is locked from before its sets are read until the answer: meanwhile no other set of the group is
scaled down, and none is rolled out. An allowed downscale is written to the Lease before the answer, with the
resourceVersion that was locked: a process that is slow, or was killed and restarted, allows nothing. A process that is
killed before that leaves a lock that names the set, and the leader then tells its pods that they stay.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from upgrader.in_cluster.guard.core import downscale
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer, allow
from upgrader.in_cluster.guard.core.delayed_downscale import Endpoint
from upgrader.in_cluster.guard.core.downscale import Parent
from upgrader.in_cluster.guard.core.group_lease import Preparing, ever_ran, unseen, with_open
from upgrader.in_cluster.guard.core.prepare import (
    GroupState,
    Preparation,
    concluded,
    decide,
    is_prepared,
    refused,
    shrinks,
)
from upgrader.in_cluster.guard.core.rollout import GROUP_LABEL, Hold
from upgrader.in_cluster.guard.core.run_lease import refuse_downscale
from upgrader.in_cluster.guard.core.workloads import StatefulSet, stateful_set
from upgrader.in_cluster.guard.guard_errors import ApiAway, Conflict, GroupLocked
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.direct_read import pods_of, stateful_sets
from upgrader.in_cluster.guard.roles.downscale_history import DownscaleHistory
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks, Held
from upgrader.in_cluster.guard.roles.pod_preparation import addresses, failures, tell, uids
from upgrader.in_cluster.guard.roles.run_lease import RunLease
from upgrader.in_cluster.guard.roles.workload_cache import STATEFUL_SETS
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls

__all__ = ["PATH", "PrepareDownscale"]

PATH = "/admission/prepare-downscale"
_ASKED_SHARE, _UNDONE_SHARE = 0.6, 0.15
"""Share of a request's timeout: for the pods' answers, and for telling them that they stay."""
_AGAIN_SECONDS = (0.1, 0.2)
_STAY_SECONDS = 20.0
"""However long a request takes: if need be, pods are told in the background that they stay."""


@dataclass(frozen=True)
class _Decided:
    """The decision about a set, as it was read for it, and the names, addresses and UIDs of its pods."""

    decision: Answer | Preparation
    set: StatefulSet
    ips: Mapping[str, str]
    uids: Mapping[str, str]

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The pods to be told."""
        return self.decision.endpoints if isinstance(self.decision, Preparation) else ()


class PrepareDownscale:
    """Reads everything from the API itself; locks and writes only for a downscale that would be allowed."""

    def __init__(
        self,
        api: Api,
        locks: GroupLocks,
        calls: PodCalls,
        *,
        run_lease: RunLease | None,
        history: DownscaleHistory,
        cluster_domain: str,
        timeout_seconds: float,
        dry_run: bool = False,
        by_label: Callable[[AdmissionRequest], bool] = lambda _: False,
    ) -> None:
        """`run_lease` None: no run holds anything. `history`: when sets were last downscaled. `timeout_seconds`: a
        request's timeout. `dry_run`: nothing is denied, so no pod is told and nothing is written. `by_label`: whether
        guard's other webhook denies this request if the set has the label `grafana.com/no-downscale`.
        """
        self._api, self._locks, self._calls, self._run_lease = api, locks, calls, run_lease
        self._history, self._cluster_domain = history, cluster_domain
        self._seconds, self._dry_run, self._by_label = timeout_seconds, dry_run, by_label
        self._background = set[asyncio.Task[None]]()

    async def __call__(self, request: AdmissionRequest) -> Answer:
        """The answer. Raises ApiAway or ApiRefused if no decision is possible: failurePolicy decides."""
        change = shrinks(request)
        if request.operation != "UPDATE":
            return allow()
        if isinstance(change, Answer):
            return change
        if (request.group, request.resource) != ("apps", "statefulsets"):
            return allow(f"{request}: allowed, because guard prepares only StatefulSets")
        if self._dry_run:
            request = replace(request, dry_run=True)
        found = await self._api.get(STATEFUL_SETS, request.name, request.namespace)
        if found is None:
            return allow(f"{request}: allowed, because the object doesn't exist")
        which = stateful_set(found)
        if self._by_label(request) and not (refusal := downscale.decide(request, Parent(which.labels))).allowed:
            return refusal  # its pods would be prepared for a shutdown that the other webhook denies, again and again
        group = request.namespace, which.labels.get(GROUP_LABEL, "")
        if not is_prepared(which) or not group[1]:
            return await self._without_lock(request, found, group[1])
        try:
            seen = await self._locks.look(group)
            first = (await self._decide(request, seen)).decision
            if isinstance(first, Answer) and (request.dry_run or not first.allowed):
                return first
            return await self._with_lock(request, seen, Preparing(request.name, *change))
        except GroupLocked as error:
            return refused(request, f"its group is locked: {error}")

    async def _without_lock(self, request: AdmissionRequest, found: Mapping[str, Any], group: str) -> Answer:
        """A set that isn't prepared, or is in no group: only a run, or its own pods, can prevent its downscale."""
        which, item = stateful_set(found), dict(found)
        pods = await pods_of(self._api, request.namespace, [item]) if is_prepared(which) else []
        hold = await self._hold(group)
        state = GroupState((which,), tuple(pods), {}, which.ordinals.stop, hold=hold)
        decided = _Decided(
            decide(request, which, state, self._cluster_domain, self._locks.now()),
            which,
            addresses(which, pods),
            uids(which, pods),
        )
        if isinstance(decided.decision, Answer):
            return decided.decision
        answer = await self._told(decided.decision, decided)
        if not answer.allowed:
            await self._in_background(self._stay(decided))
        return answer

    async def _with_lock(self, request: AdmissionRequest, seen: Held, preparing: Preparing) -> Answer:
        """Raises GroupLocked if another process has the lock."""
        why = f"a downscale of {preparing.set} from {preparing.before} to {preparing.after} replicas"
        until = asyncio.get_running_loop().time() + self._seconds * _UNDONE_SHARE
        while True:
            try:
                held = await self._locks.take(seen, why, preparing=preparing)
                break
            except Conflict:
                if asyncio.get_running_loop().time() > until:
                    raise GroupLocked("other clients keep changing its Lease") from None
                await asyncio.sleep(random.uniform(*_AGAIN_SECONDS))  # noqa: S311 - so that two don't meet again
                seen = await self._locks.look(seen.group)
        decided: _Decided | None = None
        answer: Answer | None = None
        try:
            decided = await self._decide(request, held)
            answer = await self._concluded(request, held, decided, preparing)
            return answer
        finally:
            if answer is None or not answer.allowed:
                await self._in_background(self._undone(held, decided))

    async def _concluded(
        self, request: AdmissionRequest, held: Held, decided: _Decided, preparing: Preparing
    ) -> Answer:
        """The answer, once the record is written that it was allowed."""
        answer = decided.decision
        if isinstance(answer, Preparation):
            answer = await self._told(answer, decided)
        if not answer.allowed:
            return answer
        hold = await self._hold(held.group[1])  # the run may have begun while the pods were asked
        if hold and (refusal := refuse_downscale(request, held.group[1], hold)):
            return refusal
        try:
            told = {each.pod: decided.uids[each.pod] for each in decided.endpoints}
            await self._locks.write(held, with_open(held.lease, decided.set, preparing, self._locks.now(), told))
        except Conflict:
            return refused(request, "its group's lock has expired in the meantime")
        LOG.info("downscale allowed", extra={"request": str(request), "prepared": len(decided.endpoints)})
        return answer

    async def _decide(self, request: AdmissionRequest, held: Held) -> _Decided:
        """Decide by the present state of the group. Without `held`, the lock's holder is a reason to deny."""
        namespace, group = held.group
        hold = await self._hold(group)
        found = await stateful_sets(self._api, namespace, f"{GROUP_LABEL}={group}")
        pods = await pods_of(self._api, namespace, found)
        sets = tuple(map(stateful_set, found))
        which = next((each for each in sets if each.name == request.name), None)
        if which is None:
            raise ApiAway(f"{request} has left the group {group} in the meantime")
        others = [each for each in sets if each.uid != which.uid]
        state = GroupState(
            sets,
            tuple(pods),
            await self._history.last(held, others),
            ever_ran=ever_ran(held.lease, which),
            locked_by=held.locked_by() or min(unseen(held.lease, others, held.old).values(), default=""),
            hold=hold,
        )
        decision = decide(request, which, state, self._cluster_domain, self._locks.now())
        return _Decided(decision, which, addresses(which, pods), uids(which, pods))

    async def _hold(self, group: str) -> Hold | None:
        return await self._run_lease.look() if group and self._run_lease else None

    async def _told(self, preparation: Preparation, decided: _Decided) -> Answer:
        seconds = self._seconds * _ASKED_SHARE
        replies = await tell(self._calls, "POST", preparation.endpoints, decided.ips, seconds)
        return concluded(preparation, failures(replies))

    async def _undone(self, held: Held, decided: _Decided | None) -> None:
        """Release the lock only after the pods were told that they stay: before that, no other process may tell them
        anything.
        """
        if decided:
            await self._stay(decided)
        await self._locks.release(held)

    async def _stay(self, decided: _Decided) -> None:
        replies = await tell(self._calls, "DELETE", decided.endpoints, decided.ips, _STAY_SECONDS)
        for pod, why in failures(replies).items():
            LOG.warning("a pod can't be notified that it stays", extra={"pod": pod, "reason": why})

    async def _in_background(self, undoing: Coroutine[Any, Any, None]) -> None:
        """To the end, however long that takes; the request waits only for a while, and may itself be cancelled."""
        task = asyncio.ensure_future(undoing)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        await asyncio.wait([task], timeout=self._seconds * _UNDONE_SHARE)
