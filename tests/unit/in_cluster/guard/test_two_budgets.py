"""Pods of which a zone-aware budget and a PodProtector decide, while several clients want them to go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import member
from tests.unit.in_cluster.guard.protector_world import Sure, protector, put, see
from tests.unit.in_cluster.guard.test_zone_budgets import World as Zones
from tests.unit.in_cluster.guard.test_zone_budgets import review
from upgrader.in_cluster.guard.core.admission import Answer
from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.guard_errors import ApiAway
from upgrader.in_cluster.guard.roles.aggregator import Aggregator
from upgrader.in_cluster.guard.roles.own_webhooks import OwnWebhooks
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS, PodsOfCell
from upgrader.in_cluster.guard.roles.protector_cache import NewestProtectors, ProtectorCache
from upgrader.in_cluster.guard.roles.protector_webhook import CellWebhook, ProtectorWriter
from upgrader.in_cluster.guard.roles.silent_cells import SilentCells
from upgrader.in_cluster.guard.roles.young_pods import YoungPods
from upgrader.in_cluster.guard.roles.zone_budgets import EVICTION_PATH
from upgrader.in_cluster.guard.runtime.ca_injection import CONFIGURATIONS
from upgrader.in_cluster.guard.runtime.informer import Informer, whole
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics
from upgrader.recover.webhook_bypass.configurations import NOTHING

LEAST_PATH = "/protect/a"
DELETIONS: dict[str, Any] = {"apiGroups": [""], "operations": ["DELETE"], "resources": ["pods"]}
EVICTIONS: dict[str, Any] = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods/eviction"]}


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
        self.switch({"service": {"path": EVICTION_PATH}})
        self.webhook = CellWebhook("a", api, self.cache, writer, counts, 5.0, is_own=True)
        webhooks = OwnWebhooks(self.configurations)
        self.webhook.others.add(webhooks.while_called(EVICTION_PATH, self.zones.budgets.refusal, unknown=True))
        self.zones.budgets.others.add(webhooks.while_called(LEAST_PATH, self.webhook.refusal, unknown=False))
        leadership = Sure(api, "ops", "guard", "me")
        self.aggregator = Aggregator(
            api, api, self.cache, "a", [], leadership, counts, now=self._clock, clock=self._clock
        )
        self.pods = PodsOfCell(api, [], "", self.aggregator._pod_changed, self._clock)
        self.aggregator._pods = self.pods

    def _clock(self) -> float:
        return self.zones.now

    def switch(
        self, client: dict[str, Any], rules: Sequence[dict[str, Any]] = (DELETIONS, EVICTIONS), **selector: Any
    ) -> None:
        """How the API server has the zone-aware budgets' webhook. `rules`: of the PodProtectors' one."""
        another = {"name": "another", "clientConfig": {"url": "https://guard.example/other"}}
        least = [
            {"name": f"pod-{number}", "clientConfig": {"service": {"path": LEAST_PATH}}, "rules": [rule]}
            for number, rule in enumerate(rules)
        ]
        zones = {"name": "pod-eviction", "clientConfig": client, "rules": [EVICTIONS], **selector}
        webhooks = [another, *least, zones]
        resource = CONFIGURATIONS["ValidatingWebhook"]
        self.zones.api.put(resource, {"metadata": {"name": "zones"}, "webhooks": webhooks})

    def asked_for_disruption_budgets(self) -> int:
        """How many times, since it was asked for the last time here."""
        found = sum("/poddisruptionbudgets?" in call for call in self.zones.api.calls)
        self.zones.api.calls.clear()
        return found

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
        for held in list(self.cache):
            await self.aggregator._look_at(("shop", held.protector.name))
        await see(self.cache)

    async def zone(self, pod: str, request: str) -> bool:
        """Whether the zone-aware budget lets the pod be evicted."""
        return (await self.zones.budgets.evict(review(pod, uid=request))).allowed

    async def least(self, pod: str, request: str) -> bool:
        """The same of the PodProtector."""
        return (await self.webhook(review(pod, uid=request))).allowed


def test_two_drains_do_not_keep_each_other_waiting_for_ever() -> None:
    """The pod of each has the place of one kind of budget, as both were asked at once, and waits for that of the other:
    no drain keeps its place by trying again, so that one of the two goes after about a minute.
    """

    async def whole() -> None:
        world = World()
        put(world.zones.api, protector(1, "db", selector={"matchLabels": {"rollout-group": "db"}}))
        await world.after(0)
        assert all(await asyncio.gather(world.zone("a-0", "a"), world.least("b-0", "b")))
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
        assert len(evicted) == 1 and 1050 < world.zones.now < 1090

    asyncio.run(whole())


def test_what_one_kind_of_budget_does_not_know_the_other_decides() -> None:
    """Its own webhook is asked too, and its failurePolicy decides about that."""

    async def whole() -> None:
        world = World()
        put(world.zones.api, protector(1, "db", selector={"matchLabels": {"rollout-group": "db"}}))
        await world.after(0)
        assert await world.zone("b-0", "1") and not await world.least("a-0", "2")
        world.zones.api.next_answer("page", None, ApiAway("away"))
        assert await world.least("a-0", "3"), "after the PodDisruptionBudgets, the zone-aware ones can't be listed"

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


@pytest.mark.parametrize("unknown", [True, False])
def test_where_nothing_is_known_of_the_webhooks_the_kind_of_budget_decides(unknown: bool) -> None:
    """Where guard doesn't write its authority into them, it may have no right to read them."""

    async def answer(*_: object) -> Answer:
        return Answer(allowed=False)

    async def said() -> Answer | None:
        ask = OwnWebhooks([]).while_called(EVICTION_PATH, answer, unknown=unknown)
        return await ask(review("a-0"), member("a-0"))

    assert asyncio.run(said()) == (Answer(allowed=False) if unknown else None)


def test_each_webhook_reads_the_disruption_budgets_once() -> None:
    """For an eviction that both kinds of budget are asked about: a large namespace's list takes milliseconds."""

    async def whole() -> None:
        world = World()
        put(world.zones.api, protector(1, "db", selector={"matchLabels": {"rollout-group": "db"}}))
        await world.after(0)
        world.asked_for_disruption_budgets()
        assert await world.zone("a-0", "1") and world.asked_for_disruption_budgets() == 1
        assert await world.least("a-0", "2") and world.asked_for_disruption_budgets() == 1

    asyncio.run(whole())


def test_an_eviction_that_a_podprotector_refuses_keeps_no_place_of_a_zone() -> None:
    """A drain that tries again all the time would keep all other zones waiting, and a rollout with them."""

    async def whole() -> None:
        world = World()
        put(world.zones.api, protector(1, "a", selector={"matchLabels": {"zone": "a"}}))
        world.zones.api.objects[PODS.path("shop", "a-0")]["metadata"]["labels"]["zone"] = "a"
        await world.after(0)
        for number in range(3):
            denied = await world.zones.budgets.evict(review("a-0", uid=f"drain-{number}"))
            assert denied.code == 429 and "PodProtector shop/a" in denied.message
            assert not await world.least("a-0", f"least-{number}")
        assert world.zones.reserved() == set()
        assert await world.zone("b-0", "another zone's")

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        ([DELETIONS], False),
        ([DELETIONS, EVICTIONS], True),
        ([{**DELETIONS, "operations": ["*"], "resources": ["*/*"]}], True),
        ([{**EVICTIONS, "resources": ["pods/*"]}], True),
        ([{**EVICTIONS, "operations": ["UPDATE"]}], False),
        ([{**EVICTIONS, "apiGroups": ["apps"]}], False),
        ([{**EVICTIONS, "resources": ["*"]}], False),
        ([], False),
    ],
)
def test_podprotectors_that_limit_no_evictions_deny_none_for_a_zone(rules: list[dict[str, Any]], asked: bool) -> None:
    """The chart's `protector.webhook.handleEviction: false` leaves evictions out; deletions are still limited, by the
    same path.
    """

    async def whole() -> None:
        world = World()
        world.switch({"service": {"path": EVICTION_PATH}}, rules)
        put(world.zones.api, protector(2, "db", selector={"matchLabels": {"rollout-group": "db"}}))
        await world.after(0)
        assert await world.zone("a-0", "1") is not asked

    asyncio.run(whole())


NAME = "kubernetes.io/metadata.name"


@pytest.mark.parametrize(
    ("selectors", "called"),
    [
        ({"namespaceSelector": {"matchLabels": {NAME: "shop"}}}, True),
        ({"namespaceSelector": {"matchLabels": {NAME: "ops"}}}, False),
        ({"namespaceSelector": {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["shop"]}]}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"objectSelector": {"matchLabels": {"no-downscale": "true"}}}, True),
        ({"objectSelector": {"matchLabels": {"no-downscale": "false"}}}, False),
        ({"objectSelector": {"matchLabels": {f"label-{number}": "" for number in range(50)}}}, True),
        ({"rules": [{"apiGroups": ["apps"], "operations": ["UPDATE"], "resources": ["deployments"]}]}, False),
        ({"rules": [{"apiGroups": ["apps"], "operations": ["UPDATE"], "resources": ["statefulsets/scale"]}]}, False),
    ],
)
def test_another_webhook_is_called_for_what_it_selects(selectors: dict[str, Any], called: bool) -> None:
    """By its rules, the namespace's name, and the object's labels; what guard can't read of these may select it."""

    async def whole() -> None:
        world = World()
        rule = {"apiGroups": ["apps"], "operations": ["UPDATE"], "resources": ["statefulsets"]}
        webhook = {"clientConfig": {"url": "https://guard.example/no"}, "rules": [rule], **selectors}
        world.zones.api.put(CONFIGURATIONS["ValidatingWebhook"], {"metadata": {"name": "no"}, "webhooks": [webhook]})
        await world.after(0)
        before = {"metadata": {"labels": {"no-downscale": "true"}}}
        asked = review("a", operation="UPDATE", group="apps", resource="statefulsets", subresource="")
        webhooks = OwnWebhooks(world.configurations)
        strange: list[Any] = [None, [], {"labels": []}, {"labels": {"no-downscale": ["true"], "team": {}}}]
        for forged in strange:
            asked = replace(asked, old_object=before, object={"metadata": forged})
            assert webhooks.calls("/no", asked, unknown=not called) is called
        assert not webhooks.calls("/other", asked, unknown=True)

    asyncio.run(whole())
