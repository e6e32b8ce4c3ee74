"""The ZoneAwarePodDisruptionBudgets of some namespaces, if the cluster has that kind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from upgrader.in_cluster.guard.core.ledger import Ledger
from upgrader.in_cluster.guard.core.zone_budget import InvalidBudget, ZoneBudget, read
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.zone_budget_books import ZONE_BUDGETS, ledger_of
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer, Key, unlisted
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["CachedBudget", "ZoneBudgetCache"]

_LOOK_SECONDS = 10.0
_NOT_FOUND = 404
_LONGEST_REASON = 256


@dataclass(frozen=True)
class CachedBudget:
    """What is kept of a budget: its reservations, and why it is invalid ("" if it isn't). The rest decides nothing, as
    decisions read it from the API, and may be large.
    """

    namespace: str
    name: str
    ledger: Ledger
    why: str


class ZoneBudgetCache:
    """Without the kind's CustomResourceDefinition there are no budgets, which is a known and valid state."""

    def __init__(self, api: Api, namespaces: Sequence[str], metrics: Metrics) -> None:
        self._api, self._metrics = api, metrics
        self._invalid: dict[Key, str] = {}
        self.informers = {each: Informer(api, ZONE_BUDGETS, each, keep=_kept) for each in namespaces}
        for informer in self.informers.values():
            informer.tell(self._changed)
        self._installed = asyncio.Event()
        self._unknown = "the API server hasn't been queried for the kind yet"

    def why_not_ready(self) -> str:
        """Why it isn't known which budgets there are; "" if it is."""
        if not self._installed.is_set():
            return self._unknown
        missing = [each.name for each in unlisted(self.informers.values())]
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    async def of(self, namespace: str) -> tuple[ZoneBudget | InvalidBudget, ...]:
        """A namespace's budgets as the API has them now; raises ApiAway, ApiRefused.

        Not from the cache: a user who applies a budget and drains a node at once relies on it.
        """
        if not self._installed.is_set() and not await self._look():
            return ()
        try:
            found, _ = await everything(self._api, ZONE_BUDGETS, namespace, {}, read)
        except ApiRefused as refused:
            if refused.status != _NOT_FOUND or await self._is_served():
                raise
            return ()  # the kind was removed
        return tuple(found)

    def known(self, namespace: str) -> list[CachedBudget]:
        """All known budgets of a namespace."""
        informer = self.informers.get(namespace)
        return list(informer.objects.values()) if informer is not None else []

    async def installed(self) -> None:
        """Return once the kind exists."""
        await self._installed.wait()

    async def run(self) -> None:
        """Follow them, once the kind exists, until cancelled."""
        while not self._installed.is_set():
            try:
                await self._look()
            except (ApiAway, ApiRefused) as error:
                self._unknown = str(error)
                LOG.warning(
                    "the API server can't be queried for a kind",
                    extra={"resource": ZONE_BUDGETS.plural, "reason": str(error)},
                )
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._installed.wait()
            except TimeoutError:
                continue
        async with asyncio.TaskGroup() as group:
            for informer in self.informers.values():
                group.create_task(informer.run())

    def _changed(self, before: CachedBudget | None, after: CachedBudget | None) -> None:
        """An invalid stored budget is logged when it is seen, not only when it denies an eviction."""
        found = after or before
        assert found is not None
        key = found.namespace, found.name
        if after is not None and after.why:
            if self._invalid.get(key) != after.why:
                LOG.warning(
                    "a budget is invalid: evictions of its pods are refused",
                    extra={"budget": "/".join(key), "reason": after.why, "remedy": "correct its spec, or delete it"},
                )
            self._invalid[key] = after.why
        else:
            self._invalid.pop(key, None)
        self._metrics.invalid_budgets.set(len(self._invalid))

    async def _look(self) -> bool:
        """Whether the API has the kind: discovery shows that even without the right to list it."""
        if await self._is_served():
            self._installed.set()
        self._unknown = ""
        return self._installed.is_set()

    async def _is_served(self) -> bool:
        return any(each.get("name") == ZONE_BUDGETS.plural for each in await self._api.kinds(ZONE_BUDGETS.api_version))


def _kept(item: Object) -> CachedBudget:
    found = read(item)
    why = found.why[:_LONGEST_REASON] if isinstance(found, InvalidBudget) else ""
    return CachedBudget(found.namespace, found.name, ledger_of(item), why)
