"""Zone-aware budgets as the role keeps them: what is asked of the API, what is reserved, and for how long."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from testkit.memory import TracedMemory
from tests.unit.in_cluster.guard.core.builders import Json
from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.test_rollouts import Sure, pod, stateful_set
from upgrader.in_cluster.guard.core.admission import AdmissionRequest
from upgrader.in_cluster.guard.core.workloads import pod as as_pod
from upgrader.in_cluster.guard.core.zone_budget import Rollout
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound, NotNow
from upgrader.in_cluster.guard.roles import seen_pods
from upgrader.in_cluster.guard.roles.disruption_budgets import DISRUPTION_BUDGETS
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks
from upgrader.in_cluster.guard.roles.rollout import Rollouts
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS
from upgrader.in_cluster.guard.roles.zone_budget_books import ZONE_BUDGETS, RolloutRequest, ledger_of
from upgrader.in_cluster.guard.roles.zone_budgets import ZoneBudgets, validated
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.resource import Resource

VERSION = Resource(ZONE_BUDGETS.api_version, "", namespaced=False)


def review(pod: str, namespace: str = "shop", **changes: Any) -> AdmissionRequest:
    """An eviction."""
    asked: dict[str, Any] = {"uid": f"of-{pod}", "operation": "CREATE", "group": "", "version": "v1"}
    asked |= {"resource": "pods", "subresource": "eviction", "kind": "Eviction"}
    return AdmissionRequest(**{**asked, "namespace": namespace, "name": pod, "dry_run": False, **changes})


class World:
    """Two zones of one pod, whose group has a budget, and a role that knows it."""

    def __init__(self, namespaces: Sequence[str] = ("shop",)) -> None:
        self.api, self.metrics, self.now = FakeApi(), Metrics(), 1000.0
        self.date = 0.0
        """What the clock of the day says; 0: it is right."""
        self.budgets = ZoneBudgets(
            self.api,
            namespaces,
            self.metrics,
            5,
            clock=lambda: self.now,
            now=lambda: self.date or time.time(),
        )
        self.install()
        self.put_budget()
        for name in ("a", "b"):
            self.put(stateful_set(name), pod(name))

    def install(self) -> None:
        """The kind."""
        found = {"metadata": {"name": ""}, "resources": [{"name": ZONE_BUDGETS.plural}]}
        self.api.objects[VERSION.path()] = found

    def put_budget(self, name: str = "db", **spec: Any) -> None:
        """One for the group."""
        given = {"selector": {"matchLabels": {"rollout-group": "db"}}, **spec}
        self.api.put(ZONE_BUDGETS, {"metadata": {"name": name}, "spec": given}, "shop")

    def put(self, *objects: Json) -> None:
        """Sets and pods, in `shop`, all with the group's label."""
        for each in objects:
            each["metadata"]["labels"]["rollout-group"] = "db"
            self.api.put(STATEFUL_SETS if "template" in each["spec"] else PODS, each, "shop")

    async def see(self) -> None:
        """The caches know what there is now."""
        for budgets in self.budgets.cache.informers.values():
            await budgets._list()
        for pods in self.budgets.pods.informers:
            await pods._list()

    def replace(self, name: str, uid: str) -> None:
        """A zone's pod is gone, and the set's next one is Ready."""
        again = pod(name)
        again["metadata"]["uid"] = uid
        self.put(again)

    def evict_pod(self, name: str) -> None:
        """What the API server writes into a zone's pod before it deletes it by an eviction."""
        found = self.api.objects[PODS.path("shop", f"{name}-0")]
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        status = {**found["status"], "conditions": [*found["status"]["conditions"], condition]}
        self.api.put(PODS, {**found, "status": status}, "shop")

    def reserved(self) -> set[str]:
        """UIDs."""
        return set(ledger_of(self.api.objects[ZONE_BUDGETS.path("shop", "db")]).reservations)

    def counted(self, reason: str, status: str) -> bool:
        """Whether the metrics have one of these."""
        wanted = f'rollout_operator_zpdb_eviction_requests_total{{reason="{reason}",status="{status}"}} 1.0'
        return wanted in self.metrics.text()


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own, with budgets that are known."""

    async def whole() -> None:
        world = World()
        await world.see()
        await test(world)

    asyncio.run(whole())


def test_an_eviction_is_reserved_and_the_next_zone_is_denied() -> None:
    """By the pod's UID as the API says; the reservation is counted as the pod is still there."""

    async def test(world: World) -> None:
        assert (await world.budgets.evict(review("a-0"))).allowed
        assert world.reserved() == {"pod-a-v1"}
        answer = await world.budgets.evict(review("b-0"))
        assert (answer.code, answer.message) == (429, "1 pod not ready in a")
        assert world.counted("allowed", "200") and world.counted("denied", "429")
        assert "rollout_operator_zpdb_inflight_eviction_requests 0.0" in world.metrics.text()

    run(test)


@pytest.mark.parametrize("status", ["x", [1], 3])
def test_a_status_of_another_type_ends_no_process(status: object) -> None:
    """A definition of others may have let a tenant store it: the cache of all budgets, and whatever else the process
    does, goes on, and the next reservation replaces it.
    """

    async def test(world: World) -> None:
        world.api.objects[ZONE_BUDGETS.path("shop", "db")]["status"] = status
        await world.see()
        await world.budgets.settle()
        assert (await world.budgets.evict(review("a-0"))).allowed
        assert world.reserved() == {"pod-a-v1"}

    run(test)


def test_a_dry_run_of_an_eviction_reserves_nothing() -> None:
    """It is answered as it would be."""

    async def test(world: World) -> None:
        assert (await world.budgets.evict(review("a-0", dry_run=True))).allowed
        assert world.reserved() == set()
        assert not [call for call in world.api.calls if call.startswith("replace")]

    run(test)


@pytest.mark.parametrize(
    "wanted", [{"uid": "former"}, {"uid": ""}, {"resourceVersion": "1"}, {"resourceVersion": "99999"}]
)
def test_an_eviction_of_another_state_of_the_pod_takes_no_place_and_is_refused(wanted: dict[str, str]) -> None:
    """The API server would refuse it itself, after all webhooks: for a minute, no other zone's pod could go. But a
    resourceVersion may also be one that the pod is going to have, which a client can guess, or bring about: it would
    have gone without a place.
    """

    async def test(world: World) -> None:
        body = {"deleteOptions": {"preconditions": wanted}}
        refused = await world.budgets.evict(review("a-0", object=body))
        assert (refused.code, next(iter(wanted.values())) in refused.message) == (409, True)
        assert world.reserved() == set()
        assert (await world.budgets.evict(review("b-0"))).allowed

    run(test)


@pytest.mark.parametrize(("rollouts", "evictions"), [(40, 0), (40, 1)])
def test_of_many_requests_of_rollouts_none_becomes_an_eviction(rollouts: int, evictions: int) -> None:
    """A PodProtector refuses a rollout's deletions, which are tried again for minutes: if they counted as an eviction
    when they lose their ids, the rollout would wait for a pod to go that nobody deletes.
    """

    async def test(world: World) -> None:
        there = as_pod(world.api.objects[PODS.path("shop", "a-0")])
        for number in range(rollouts):
            asked = RolloutRequest(f"rollout-{number}", there, rollout=Rollout(1))
            assert (await world.budgets.ask(asked)).answer.allowed
            if evictions and number == 3:
                assert (await world.budgets.evict(review("a-0"))).allowed
        await world.see()
        assert world.budgets.reserved_by_evictions("shop") == ({there.uid} if evictions else set())

    run(test)


def test_what_is_none_of_ours_is_let_through() -> None:
    """A namespace without budgets isn't even read; a pod in no budget takes no place."""

    async def test(world: World) -> None:
        assert (await world.budgets.evict(review("x", "elsewhere"))).warnings
        free = pod("c")
        world.api.put(PODS, free, "shop")
        assert (await world.budgets.evict(review("c-0"))).allowed and world.counted("pod-not-in-scope", "200")
        assert world.reserved() == set()
        assert (await world.budgets.evict(review("a-0", operation="DELETE"))).code == 400

    run(test)


def test_an_eviction_of_a_pod_that_is_gone_is_404_as_from_the_api_server() -> None:
    """A StatefulSet's next pod has its name: an eviction that were allowed, and is held up by another webhook until
    that pod is Ready, would delete it without a place.
    """

    async def test(world: World) -> None:
        gone = await world.budgets.evict(review("x"))
        assert (gone.code, gone.reason) == (404, "NotFound") and "shop/x" in gone.message
        assert world.reserved() == set() and world.counted("pod-not-found", "404")

    run(test)


def test_an_invalid_budget_denies_with_its_name() -> None:
    """Also where it got invalid after the cache has seen it."""

    async def test(world: World) -> None:
        world.put_budget(maxUnavailable=1, maxUnavailablePercentage=5)
        for _ in range(2):
            answer = await world.budgets.evict(review("a-0"))
            assert answer.code == 400 and "shop/db is invalid" in answer.message
            await world.see()

    run(test)


def test_a_stored_budget_that_is_invalid_is_told_before_an_eviction(caplog: pytest.LogCaptureFixture) -> None:
    """Once in the log, with what to correct, however often it is written; counted until it is corrected."""

    def told() -> list[str]:
        return [record.__dict__["reason"] for record in caplog.records if record.message.startswith("a budget is")]

    async def test(world: World) -> None:
        assert told() == [] and "guard_invalid_zone_budgets 0.0" in world.metrics.text()
        for _ in range(2):
            world.put_budget(podNamePartitionRegex="(a+)+")
            await world.see()
        assert len(told()) == 1 and "podNamePartitionRegex can't be used" in told()[0]
        assert "guard_invalid_zone_budgets 1.0" in world.metrics.text()
        world.put_budget()
        await world.see()
        assert len(told()) == 1 and "guard_invalid_zone_budgets 0.0" in world.metrics.text()

    with caplog.at_level(logging.WARNING, "guard"):
        run(test)


def test_a_budget_that_is_deleted_meanwhile_denies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was listed, and is gone as the pod is to be reserved."""

    async def test(world: World) -> None:
        listed = world.api.page

        async def page(*arguments: Any, **more: Any) -> Any:
            found = await listed(*arguments, **more)
            world.api.objects.pop(ZONE_BUDGETS.path("shop", "db"), None)
            return found

        monkeypatch.setattr(world.api, "page", page)
        assert (await world.budgets.evict(review("a-0"))).allowed

    run(test)


def test_a_budget_counts_from_when_it_is_there() -> None:
    """Also for an eviction that follows it before any watch has told of it."""

    async def test(world: World) -> None:
        del world.api.objects[ZONE_BUDGETS.path("shop", "db")]
        await world.see()
        world.put_budget(maxUnavailable=0)
        assert not (await world.budgets.evict(review("a-0"))).allowed

    run(test)


@pytest.mark.parametrize("error", [ApiAway("away"), ApiRefused("cannot list resource pods", 403)])
def test_what_is_not_known_is_an_error(error: Exception) -> None:
    """HTTP 500, so that failurePolicy decides; counted."""

    async def test(world: World) -> None:
        if isinstance(error, ApiAway):
            world.budgets._seconds = 0.01  # it is asked for so long, and a refusal may need longer on a busy machine
        world.api.next_answer("page", *[error] * 1000)
        with pytest.raises(type(error)):
            await world.budgets.evict(review("a-0"))
        assert world.counted("failed", "500") and world.reserved() == set()

    run(test)


def test_without_the_kind_there_are_no_budgets() -> None:
    """Which is known, so that guard is ready; once the kind is there its budgets count, and guard isn't ready before
    they are listed.
    """

    async def whole() -> None:
        world = World()
        cache = world.budgets.cache
        assert cache.why_not_ready() == "the API server hasn't been queried for the kind yet"
        del world.api.objects[VERSION.path()]
        assert (await world.budgets.evict(review("a-0"))).allowed and cache.why_not_ready() == ""
        world.install()
        assert (await world.budgets.evict(review("a-0"))).allowed and world.reserved()
        assert "not listed yet" in cache.why_not_ready()
        running = asyncio.ensure_future(world.budgets.run())
        async with asyncio.timeout(5):
            while cache.why_not_ready():
                await asyncio.sleep(0.001)
        assert (await world.budgets.evict(review("a-0"))).allowed and world.reserved()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(whole())


def test_without_the_kind_no_pods_are_followed() -> None:
    """guard may lack the right to, where it is installed without budgets; once the kind is there, they are."""

    async def whole() -> None:
        world, pods = World(), f"page {PODS.path('shop')}?"
        del world.api.objects[VERSION.path()]
        running = asyncio.ensure_future(world.budgets.run())
        async with asyncio.timeout(5):
            while not world.api.calls:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        assert not any(each.startswith(pods) for each in world.api.calls)
        world.install()
        assert (await world.budgets.evict(review("a-0"))).allowed
        async with asyncio.timeout(5):
            while not any(each.startswith(pods) for each in world.api.calls):
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(whole())


def test_a_404_alone_does_not_say_that_the_kind_was_removed() -> None:
    """Only if discovery has it no more are there no budgets; else an eviction is answered with HTTP 500."""

    async def test(world: World) -> None:
        world.api.next_answer("page", *[ApiRefused("404", 404)] * 2)
        with pytest.raises(ApiRefused):
            await world.budgets.evict(review("a-0"))
        del world.api.objects[VERSION.path()]
        assert (await world.budgets.evict(review("a-0"))).allowed

    run(test)


@pytest.mark.parametrize("evicted", [False, True])
def test_a_pod_that_goes_without_its_eviction_frees_no_place(evicted: bool) -> None:
    """Another client deletes a-0, or its node is lost, while its eviction waits in another webhook: the eviction may
    take the next a-0, so that b-0 stays for the minute. Where a-0 was evicted, b-0 goes once the next one is Ready.
    """

    async def test(world: World) -> None:
        assert (await world.budgets.evict(review("a-0"))).allowed
        if evicted:
            world.evict_pod("a")
        await world.see()
        world.replace("a", "next")
        await world.see()
        await world.budgets.settle()
        answer = await world.budgets.evict(review("b-0"))
        assert answer.allowed if evicted else (answer.code, answer.message) == (429, "1 pod not ready in a")
        world.now += 60
        await world.budgets.settle()
        assert (await world.budgets.evict(review("b-0"))).allowed

    run(test)


def test_what_another_process_has_seen_is_not_known() -> None:
    """A process that begins, or whose watch told nothing, doesn't know what has deleted the pod: it waits."""

    async def test(world: World) -> None:
        assert (await world.budgets.evict(review("a-0"))).allowed
        world.evict_pod("a")
        world.replace("a", "next")
        await world.see()
        assert not (await world.budgets.evict(review("b-0"))).allowed

    run(test)


def test_an_eviction_that_requires_a_pod_takes_no_other_one() -> None:
    """By its UID or resourceVersion: when the pod is gone, so is the place, whatever has deleted it."""

    async def test(world: World) -> None:
        body = {"deleteOptions": {"preconditions": {"uid": "pod-a-v1"}}}
        assert (await world.budgets.evict(review("a-0", object=body))).allowed
        assert world.reserved() == {"pod-a-v1"} and not (await world.budgets.evict(review("b-0"))).allowed
        world.replace("a", "next")
        assert (await world.budgets.evict(review("b-0"))).allowed

    run(test)


@pytest.mark.parametrize("seen", [False, True])
def test_no_clock_that_is_ahead_ends_the_delay_of_a_pod_that_was_seen_to_become_ready(seen: bool) -> None:
    """By this process' clock, an hour ahead, a-0 has been Ready for long; it saw it become so, and waits 20 minutes. Of
    what was so before it began, only the clock tells.
    """

    async def test(world: World) -> None:
        world.put_budget(podNamePartitionRegex="[a-z]-([0-9]+)", crossZoneEvictionDelay="20m")
        for ready in (False, True) if seen else (True,):
            again = pod("a", ready=ready)
            again["status"]["conditions"][0]["lastTransitionTime"] = f"2026-01-01T00:00:0{int(ready and seen)}Z"
            world.put(again)
            await world.see()
        world.date = 1767225601.0 + 3600
        for seconds, goes in ((0, not seen), (1199, not seen), (1, True)):
            world.now += seconds
            assert (await world.budgets.evict(review("b-0", dry_run=True))).allowed is goes

    run(test)


def test_of_a_pod_that_is_gone_or_not_ready_no_time_is_kept() -> None:
    """The next one of its name begins anew."""

    async def test(world: World) -> None:
        for ready in (False, True, False, True):
            world.put(pod("a", ready=ready))
            await world.see()
            assert world.budgets.pods.ready_for("pod-a-v1") == (0.0 if ready else None)
        world.replace("a", "next")
        await world.see()
        assert world.budgets.pods.ready_for("pod-a-v1") is world.budgets.pods.ready_for("next") is None

    run(test)


def test_of_evicted_pods_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of them; of one that is forgotten, the place is held for the minute."""
    monkeypatch.setattr(seen_pods, "_MOST_EVICTED", 1)

    async def test(world: World) -> None:
        for name in ("a", "b"):
            world.evict_pod(name)
        await world.see()
        assert ["pod-a-v1" in world.budgets.pods.evicted, "pod-b-v1" in world.budgets.pods.evicted] == [False, True]

    run(test)


def test_of_a_large_budget_little_is_kept() -> None:
    """A tenant's budgets may have labels, annotations and a selector of 1.5 MiB."""

    async def test(world: World) -> None:
        for number in range(4):
            world.put_budget(f"p-{number}", selector={"matchLabels": {f"a-{each}": "b" * 100 for each in range(200)}})
            found = world.api.objects[ZONE_BUDGETS.path("shop", f"p-{number}")]
            found["metadata"] |= {"annotations": {"note": "x" * 100_000}, "labels": {f"l-{n}": "" for n in range(200)}}
        with TracedMemory() as memory:
            await world.see()
            kept = memory.kept
        assert len(world.budgets.cache.known("shop")) == 5 and kept / 4 < 16_384

    run(test)


def test_reservations_are_freed_after_a_minute() -> None:
    """From when this process has seen them; one that can't be freed is tried again."""

    async def test(world: World) -> None:
        await world.budgets.evict(review("a-0"))
        await world.see()
        await world.budgets.settle()
        world.now += 59
        await world.budgets.settle()
        assert world.reserved() == {"pod-a-v1"}
        world.now += 1
        world.api.next_answer("get", NotFound("gone", 404))
        await world.budgets.settle()
        assert world.reserved() == {"pod-a-v1"}
        await world.budgets.settle()
        assert world.reserved() == set()

    run(test)


def test_a_namespace_whose_budgets_cannot_be_written_keeps_no_other_one_waiting() -> None:
    """Its users write their budgets all the time, say: those of another namespace are freed in the same round."""

    async def whole() -> None:
        world = World(["lab", "shop"])
        spec = {"selector": {"matchLabels": {"rollout-group": "db"}}}
        there = {"podUID": "u", "podName": "p", "requests": ["r"], "startTime": "2026-01-01T00:00:00Z"}
        for namespace in ("lab", "shop"):
            manifest = {"metadata": {"name": "db"}, "spec": spec, "status": {"reservations": [there]}}
            world.api.put(ZONE_BUDGETS, manifest, namespace)
        await world.see()
        await world.budgets.settle()
        world.now += 60
        replace = world.api.replace

        async def hangs(*arguments: Any, **more: Any) -> Any:
            if arguments[2] == "lab":
                await asyncio.Event().wait()
            return await replace(*arguments, **more)

        world.api.replace = hangs  # type: ignore[method-assign]
        settling = asyncio.ensure_future(world.budgets.settle())
        for _ in range(100):
            await asyncio.sleep(0)
        settling.cancel()
        await asyncio.gather(settling, return_exceptions=True)
        assert world.reserved() == set()

    asyncio.run(whole())


def test_a_budget_of_0_lets_rollouts_go_on() -> None:
    """Evictions are denied with 403; a rollout has its set's own limit, and the other zones still count."""

    async def test(world: World) -> None:
        world.put_budget(maxUnavailable=0)
        await world.see()
        assert (await world.budgets.evict(review("a-0"))).code == 403
        asked = [
            RolloutRequest(
                f"rollout-{name}", as_pod(world.api.objects[PODS.path("shop", f"{name}-0")]), rollout=Rollout(1)
            )
            for name in ("a", "b")
        ]
        assert (await world.budgets.ask(asked[0])).answer.allowed
        assert (await world.budgets.ask(asked[1])).answer.code == 429

    run(test)


def test_rollouts_ask_before_they_delete() -> None:
    """A pod that is reserved for an eviction stops another zone's deletion, which is told by an Event; its own is not
    waited for. Without a reservation the deletion is reserved, and done.
    """

    async def test(world: World) -> None:
        leadership = Sure(world.api, "ops", "guard", "me")
        locks = GroupLocks(world.api, "ops")
        rollouts = Rollouts(world.api, ["shop"], leadership, world.metrics, 5, locks=locks, budgets=world.budgets)

        async def look() -> list[str]:
            for informer in rollouts.caches["shop"].informers:
                await informer._list()
            await world.see()
            await rollouts._look_at(("shop", "db"))
            return [call.rpartition("/")[2] for call in world.api.calls if call.startswith("delete ")]

        await world.budgets.evict(review("b-0"))
        assert await look() == []
        for _ in range(2):
            world.now += 60
            await world.see()
            await world.budgets.settle()
        assert world.reserved() == set()
        assert await look() == ["a-0"]
        assert world.reserved() == {"pod-a-v1"}

    run(test)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (NotNow("denied the request: too few available replicas"), False),
        (Conflict("denied the request: full admission buffer", 409), False),
        (ApiRefused("denied the request: by another webhook", 403), False),
        (ApiAway("no answer in time"), True),
    ],
)
def test_a_deletion_of_a_rollout_that_is_refused_keeps_no_place(error: Exception, kept: bool) -> None:
    """The rollout tries again for as long as a PodProtector, or another webhook, refuses: all other zones would wait as
    long. Where no answer came, the pod may be gone at any time.
    """

    async def test(world: World) -> None:
        leadership = Sure(world.api, "ops", "guard", "me")
        locks = GroupLocks(world.api, "ops")
        rollouts = Rollouts(world.api, ["shop"], leadership, world.metrics, 5, locks=locks, budgets=world.budgets)
        for informer in rollouts.caches["shop"].informers:
            await informer._list()
        world.api.next_answer("delete", error)
        await rollouts._look_at(("shop", "db"))
        assert [call.rpartition("/")[2] for call in world.api.calls if call.startswith("delete ")] == ["a-0"]
        assert world.reserved() == ({"pod-a-v1"} if kept else set())
        assert (await world.budgets.evict(review("b-0"))).allowed is not kept

    run(test)


def test_a_place_that_cannot_be_given_back_ends_by_itself() -> None:
    """The deletion is refused, and then no budget can be read: the group is looked at again, and the place settles."""

    async def test(world: World) -> None:
        asked = RolloutRequest("rollout-1", as_pod(world.api.objects[PODS.path("shop", "a-0")]), rollout=Rollout(1))
        assert (await world.budgets.ask(asked)).answer.allowed
        world.api.next_answer("page", ApiAway("away"))
        await world.budgets.give_back(asked)
        assert world.reserved() == {"pod-a-v1"}
        await world.budgets.give_back(asked)
        assert world.reserved() == set()

    run(test)


def test_what_a_budget_refuses_is_left_out_and_told() -> None:
    """The group is looked at again; nothing is deleted."""

    async def test(world: World) -> None:
        leadership = Sure(world.api, "ops", "guard", "me")
        locks = GroupLocks(world.api, "ops")
        rollouts = Rollouts(world.api, ["shop"], leadership, world.metrics, 5, locks=locks, budgets=world.budgets)
        for informer in rollouts.caches["shop"].informers:
            await informer._list()
        world.put_budget("again")
        await world.see()
        await rollouts._look_at(("shop", "db"))
        told = [item["message"] for path, item in world.api.objects.items() if "/events/" in path]
        assert not [call for call in world.api.calls if call.startswith("delete ")]
        assert told == [
            "a-0 isn't deleted yet: pod shop/a-0 is selected by 2 ZoneAwarePodDisruptionBudgets: shop/again, shop/db"
        ]

    run(test)


@pytest.mark.parametrize(("most", "refused", "gone"), [(1, "", "a-0"), (2, "a-0", "a-1")])
def test_what_a_budget_allows_goes_beside_what_it_refuses(most: int, refused: str, gone: str) -> None:
    """Two of a zone may be replaced at once: the budget says one, or another budget has the first one, too."""

    async def test(world: World) -> None:
        whole = stateful_set("a", replicas=2)
        whole["metadata"]["annotations"]["rollout-max-unavailable"] = "2"
        whole["status"] |= {"replicas": 2, "readyReplicas": 2}
        first, second = pod("a"), pod("a")
        second["metadata"] |= {"name": "a-1", "uid": "second"}
        for each in (first, second):
            each["metadata"]["labels"]["refused"] = str(each["metadata"]["name"] == refused)
        world.put(whole, first, second)
        world.put_budget(maxUnavailable=most)
        world.put_budget("again", selector={"matchLabels": {"refused": "True"}})
        leadership = Sure(world.api, "ops", "guard", "me")
        locks = GroupLocks(world.api, "ops")
        rollouts = Rollouts(world.api, ["shop"], leadership, world.metrics, 5, locks=locks, budgets=world.budgets)
        for informer in rollouts.caches["shop"].informers:
            await informer._list()
        await world.see()
        await rollouts._look_at(("shop", "db"))
        assert [call.rpartition("/")[2] for call in world.api.calls if call.startswith("delete ")] == [gone]

    run(test)


def test_budgets_are_validated() -> None:
    """By what the CRD's rules can't see."""
    spec = {"selector": {"matchLabels": {}}, "podNamePartitionRegex": "(a)(b)"}
    item = {"metadata": {"namespace": "shop", "name": "db"}, "spec": spec}
    asked = review("db", resource=ZONE_BUDGETS.plural, subresource="", object=item)
    assert asyncio.run(validated(asked)).code == 400


def test_an_eviction_that_a_disruption_budget_refuses_keeps_no_place_of_a_zone() -> None:
    """The API server asks webhooks first: a drain that tries again all the time would keep all other zones waiting, and
    a rollout with them. A rollout deletes, so that it isn't asked about.
    """

    async def test(world: World) -> None:
        spec = {"selector": {"matchLabels": {"rollout-group": "db"}}}
        meta = {"name": "strict", "generation": 1}
        status = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2}
        world.api.put(DISRUPTION_BUDGETS, {"metadata": meta, "spec": spec, "status": status}, "shop")
        refused = await world.budgets.evict(review("a-0"))
        assert refused.code == 429 and "PodDisruptionBudget shop/strict allows no eviction" in refused.message
        assert world.reserved() == set() and world.counted("denied", "429")
        found = as_pod(world.api.objects[PODS.path("shop", "b-0")])
        asked = RolloutRequest("rollout-1", found, rollout=Rollout(1))
        assert (await world.budgets.ask(asked)).answer.allowed

    run(test)
