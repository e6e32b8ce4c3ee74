"""Pods of which a zone-aware budget and a PodProtector decide, while several clients want them to go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.in_cluster.guard.protector_world import Sure, protector, put, see
from tests.unit.in_cluster.guard.test_zone_budgets import World as Zones
from tests.unit.in_cluster.guard.test_zone_budgets import review
from upgrader.in_cluster.guard.core.admission import Answer
from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.guard_errors import ApiAway
from upgrader.in_cluster.guard.roles.aggregator import Aggregator
from upgrader.in_cluster.guard.roles.own_webhooks import OwnWebhooks
from upgrader.in_cluster.guard.roles.pods_of_cell import PodsOfCell
from upgrader.in_cluster.guard.roles.protector_cache import NewestProtectors, ProtectorCache
from upgrader.in_cluster.guard.roles.protector_webhook import CellWebhook, ProtectorWriter
from upgrader.in_cluster.guard.roles.silent_cells import SilentCells
from upgrader.in_cluster.guard.roles.young_pods import YoungPods
from upgrader.in_cluster.guard.roles.zone_budgets import EVICTION_PATH
from upgrader.in_cluster.guard.runtime.ca_injection import CONFIGURATIONS
from upgrader.in_cluster.guard.runtime.informer import Informer, whole
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics
from upgrader.recover.webhook_bypass.configurations import NOTHING


class World:
    """Two zones of one Ready pod, `a-0` and `b-0`; one of them may go, by either kind of budget."""

    def __init__(self) -> None:
        self.zones = Zones()
        self.configurations = [
            Informer(self.zones.api, each, keep=whole, clock=self._clock) for each in CONFIGURATIONS.values()
        ]
        api, counts = self.zones.api, ProtectorMetrics(self.zones.metrics)
        self.cache = ProtectorCache(api, [], Tuning(), clock=self._clock)
        young, silent = YoungPods(self.cache, self._clock), SilentCells(self.cache, self._clock, self._clock)
        writer = ProtectorWriter(api, self.cache, counts, NewestProtectors(self.cache), young, silent)
        others = OwnWebhooks(self.configurations).while_called(EVICTION_PATH, self.zones.budgets.refusal)
        self.switch({"service": {"path": EVICTION_PATH}})
        self.webhook = CellWebhook("a", api, self.cache, writer, counts, 5.0, is_own=True, others=others)
        leadership = Sure(api, "ops", "guard", "me")
        self.aggregator = Aggregator(
            api, api, self.cache, "a", [], leadership, counts, now=self._clock, clock=self._clock
        )
        self.pods = PodsOfCell(api, [], "", self.aggregator._pod_changed, self._clock)
        self.aggregator._pods = self.pods

    def _clock(self) -> float:
        return self.zones.now

    def switch(self, client: dict[str, Any], **selector: Any) -> None:
        """How the API server has the zone-aware budgets' webhook."""
        another = {"name": "another", "clientConfig": {"url": "https://guard.example/other"}}
        webhooks = [another, {"name": "pod-eviction", "clientConfig": client, **selector}]
        resource = CONFIGURATIONS["ValidatingWebhook"]
        self.zones.api.put(resource, {"metadata": {"name": "zones"}, "webhooks": webhooks})

    async def after(self, seconds: float) -> None:
        """The pods are counted, and reservations settle."""
        self.zones.now += seconds
        await self.zones.see()
        await self.zones.budgets.settle()
        for informer in self.pods.informers:
            await informer._list()
        for configurations in self.configurations:
            await configurations._list()
        await see(self.cache)
        await self.aggregator._look_at(("shop", "db"))
        await see(self.cache)

    async def zone(self, pod: str, request: str) -> bool:
        """Whether the zone-aware budget lets the pod be evicted."""
        return (await self.zones.budgets.evict(review(pod, uid=request))).allowed

    async def least(self, pod: str, request: str) -> bool:
        """The same of the PodProtector."""
        return (await self.webhook(review(pod, uid=request))).allowed


def test_two_drains_do_not_keep_each_other_waiting_for_ever() -> None:
    """The pod of each has the place of one kind of budget, and waits for that of the other, which the other drain takes
    again every five seconds: one of the two goes after about a minute.
    """

    async def whole() -> None:
        world = World()
        put(world.zones.api, protector(1, "db", selector={"matchLabels": {"rollout-group": "db"}}))
        await world.after(0)
        evicted = list[str]()
        for attempt in range(30):
            least_b = await world.least("b-0", f"b-{attempt}")
            zone_a = await world.zone("a-0", f"a-{attempt}")
            zone_b = await world.zone("b-0", f"zone-b-{attempt}")
            least_a = await world.least("a-0", f"least-a-{attempt}")
            evicted += [name for name, goes in (("a-0", zone_a and least_a), ("b-0", zone_b and least_b)) if goes]
            if evicted:
                break
            await world.after(5)
        assert evicted == ["a-0"] and world.zones.now < 1090

    asyncio.run(whole())


def test_what_one_kind_of_budget_does_not_know_the_other_decides() -> None:
    """Its own webhook is asked too, and its failurePolicy decides about that."""

    async def whole() -> None:
        world = World()
        put(world.zones.api, protector(1, "db", selector={"matchLabels": {"rollout-group": "db"}}))
        await world.after(0)
        assert await world.zone("b-0", "1") and not await world.least("a-0", "2")
        world.zones.api.next_answer("page", ApiAway("away"))
        assert await world.least("a-0", "3")

    asyncio.run(whole())


@pytest.mark.parametrize(
    "client", [{"service": {"path": EVICTION_PATH}}, {"url": f"https://guard.example:8443{EVICTION_PATH}"}]
)
@pytest.mark.parametrize("off", [True, False])
def test_a_budget_whose_webhook_is_off_denies_nothing(off: bool, client: dict[str, Any]) -> None:
    """By `upgrader guard off`: a drain goes on then, although the PodProtector's webhook is on, and its minimum still
    counts.
    """

    async def whole() -> None:
        world = World()
        put(world.zones.api, protector(1, "db", selector={"matchLabels": {"rollout-group": "db"}}))
        selector = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}
        world.switch(client, objectSelector=NOTHING if off else selector)
        await world.after(0)
        assert await world.zone("b-0", "1")
        assert await world.least("a-0", "2") is off
        assert await world.least("b-0", "3") is not off

    asyncio.run(whole())


def test_where_nothing_is_known_of_the_webhooks_the_budget_is_asked() -> None:
    """Where guard doesn't write its authority into them, it may have no right to read them."""

    async def answer(_: object) -> Answer:
        return Answer(allowed=False)

    async def said() -> Answer | None:
        return await OwnWebhooks([]).while_called(EVICTION_PATH, answer)(review("a-0"))

    assert asyncio.run(said()) == Answer(allowed=False)
