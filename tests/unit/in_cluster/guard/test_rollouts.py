"""Rollouts as the role does them: what is asked of the API, when, and what isn't done on an old cache's word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.core.group_lease import SETS, GroupLease, Lock, Open, Record, manifest, read
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotNow
from upgrader.in_cluster.guard.roles.direct_read import selector_query
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks
from upgrader.in_cluster.guard.roles.rolling_groups import ROLLING, RollingGroups
from upgrader.in_cluster.guard.roles.rollout import Rollouts
from upgrader.in_cluster.guard.roles.run_lease import LEASES, RunLease
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.metrics import Metrics

GROUP = ("shop", "db")


def stateful_set(name: str, update: str = "v2", current: str = "v1", **changes: Any) -> dict[str, Any]:
    """One of a single replica, whole, with the group's label."""
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {},
        "updateStrategy": {"type": "OnDelete"},
    }
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "readyReplicas": 1,
        "currentRevision": current,
        "updateRevision": update,
    }
    meta = {"name": name, "generation": 1, "labels": {"rollout-group": "db"}, "annotations": {}}
    return {"metadata": meta, "spec": {**spec, **changes}, "status": status}


def pod(of: str, revision: str = "v1", *, ready: bool = True) -> dict[str, Any]:
    """A set's only one."""
    meta = {
        "name": f"{of}-0",
        "uid": f"pod-{of}-{revision}",
        "labels": {"app": of, "controller-revision-hash": revision},
        "ownerReferences": [{"controller": True, "kind": "StatefulSet", "name": of, "uid": f"uid-{of}"}],
    }
    state = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "conditions": [state], "containerStatuses": [{"ready": ready}]}
    return {"metadata": meta, "spec": {"nodeName": "n", "containers": []}, "status": status}


class Sure(Leadership):
    """Leads from the start; `is_sure` is the test's."""

    is_sure = True

    def sure(self) -> bool:
        return self.is_sure


async def at_once(_: float) -> None:
    """A sleep that takes no time."""


async def lead(work: Callable[[], Awaitable[None]], until: Callable[[], bool]) -> None:
    """Let a role work until something is true, which takes it some turns of the loop."""
    task = asyncio.ensure_future(work())
    for _ in range(200):
        await asyncio.sleep(0)
        if until():
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class World:
    """Two sets of a group and their pods, and a role that knows what was there at first."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.leadership = Sure(self.api, "ops", "guard", "me")
        self.metrics = Metrics()
        self.rollouts = Rollouts(
            self.api, ["shop"], self.leadership, self.metrics, 5, locks=GroupLocks(self.api, "ops")
        )
        for name in ("a", "b"):
            self.put(stateful_set(name), pod(name))

    def put(self, *objects: dict[str, Any]) -> None:
        """Sets and pods, in `shop`."""
        for each in objects:
            self.api.put(STATEFUL_SETS if "template" in each["spec"] else PODS, each, "shop")

    async def see(self) -> None:
        """The caches know what there is now."""
        for informer in self.rollouts.caches["shop"].informers:
            await informer._list()

    async def look(self) -> None:
        """At the group, once."""
        await self.rollouts._look_at(GROUP)

    def done(self, verb: str) -> list[str]:
        """The names of what was asked for by this verb."""
        return [call.rpartition("/")[2] for call in self.api.calls if call.startswith(f"{verb} ")]

    def events(self) -> list[str]:
        """The reasons of the Events that were written."""
        return [item["reason"] for path, item in self.api.objects.items() if "/events/" in path]


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(World())

    asyncio.run(whole())


def test_one_zone_after_the_other() -> None:
    """The first set's pod is deleted; the second one's only after the first one's is back, and Ready."""

    async def test(world: World) -> None:
        await world.see()
        await world.look()
        assert world.done("delete") == ["a-0"]
        await world.see()
        await world.look()
        world.put(pod("a", "v2", ready=False))
        await world.see()
        await world.look()
        assert world.done("delete") == ["a-0"], "nothing is deleted as long as it isn't Ready"
        world.put(pod("a", "v2"))
        await world.see()
        await world.look()
        assert world.done("delete") == ["a-0", "b-0"]

    run(test)


def test_a_set_without_the_label_is_in_no_group() -> None:
    """Its pod is outdated, too, and it isn't even listed."""

    async def test(world: World) -> None:
        other = stateful_set("compactor")
        other["metadata"]["labels"] = {}
        world.put(other, pod("compactor"))
        await world.see()
        cache = world.rollouts.caches["shop"]
        assert cache.groups() == {GROUP}
        assert sorted(each.name for each in cache.of(GROUP)[0]) == ["a", "b"]

    run(test)


def test_an_old_cache_deletes_nothing() -> None:
    """A replica that begins to lead may know what was there before the last deletion: the API is asked before each."""

    async def test(world: World) -> None:
        await world.see()
        del world.api.objects[PODS.path("shop", "b-0")]
        await world.look()
        assert world.done("delete") == []

    run(test)


def test_who_may_not_lead_any_more_deletes_nothing() -> None:
    """Not even what it has decided while it led."""

    async def test(world: World) -> None:
        world.leadership.is_sure = False
        await world.see()
        await world.look()
        assert world.done("delete") == [] and world.done("replace") == []

    run(test)


def test_the_current_revision_is_written_once_all_is_new() -> None:
    """The controller doesn't, with OnDelete; whoever writes at the same time is first."""

    async def test(world: World) -> None:
        world.put(pod("a", "v2"), pod("b", "v2"))
        await world.see()
        world.api.next_answer("replace", Conflict("modified", 409))
        await world.look()
        await world.look()
        found = world.api.objects[STATEFUL_SETS.path("shop", "a")]
        assert found["status"]["currentRevision"] == "v2" and found["spec"]["replicas"] == 1
        assert "template" in found["spec"], "it is the whole object that is written, not what a cache keeps"

    run(test)


def test_a_group_that_is_not_set_up_is_told_once() -> None:
    """An Event on the set, and not another one each time."""

    async def test(world: World) -> None:
        world.put(stateful_set("b", updateStrategy={"type": "RollingUpdate"}))
        await world.see()
        for _ in range(3):
            await world.look()
        assert world.done("delete") == [] and world.events() == ["RolloutSkipped"]

    run(test)


def test_an_event_that_cannot_be_written_keeps_nothing() -> None:
    """Rights for Events are not needed for rollouts."""

    async def test(world: World) -> None:
        sets = stateful_set("a")
        sets["metadata"]["annotations"] = {"rollout-max-unavailable": "abc"}
        world.put(sets)
        world.api.next_answer("create", None, ApiRefused("events is forbidden", 403))
        await world.see()
        await world.look()
        assert world.done("delete") == ["a-0"] and world.events() == []

    run(test)


@pytest.mark.parametrize("error", [ApiAway("away"), ApiRefused("pods is forbidden", 403), ValueError("odd")])
def test_a_group_that_fails_is_looked_at_again(error: Exception) -> None:
    """After a while, and counted; the next time it goes on. What nobody thought of ends no other group's rollout."""

    async def test(world: World) -> None:
        await world.see()
        world.api.next_answer("delete", error)
        await world.look()
        labels = 'rollout_group="db"'
        assert f"rollout_operator_group_reconciles_failed_total{{{labels}}} 1.0" in world.metrics.text()
        await world.look()
        assert "shop/db" not in world.api.objects and PODS.path("shop", "a-0") not in world.api.objects
        assert f"rollout_operator_group_reconciles_total{{{labels}}} 2.0" in world.metrics.text()

    run(test)


@pytest.mark.parametrize("error", [ApiAway("denied the request: too few"), Conflict("denied the request: full", 409)])
def test_who_refuses_a_deletion_is_named_by_an_event(error: Exception) -> None:
    """As a PodProtector that selects the pods: 429 at its minimum, 409 where it must be asked again."""

    async def test(world: World) -> None:
        await world.see()
        world.api.next_answer("delete", error)
        await world.look()
        (found,) = (item for path, item in world.api.objects.items() if "/events/" in path)
        assert (found["reason"], found["involvedObject"]["name"]) == ("RolloutWaiting", "a")
        assert found["message"] == f"a-0 isn't deleted yet: {error}"
        assert PODS.path("shop", "a-0") in world.api.objects

    run(test)


def test_a_deletion_that_is_refused_for_now_keeps_no_other_one() -> None:
    """Of two pods that may be replaced at once, a PodProtector has one: the other one goes, and the group counts as
    failed, so that it is looked at again.
    """

    async def test(world: World) -> None:
        whole, second = stateful_set("a", replicas=2), pod("a")
        whole["metadata"]["annotations"]["rollout-max-unavailable"] = "2"
        whole["status"] |= {"replicas": 2, "readyReplicas": 2}
        second["metadata"] |= {"name": "a-1", "uid": "second"}
        world.put(whole, second)
        await world.see()
        world.api.next_answer("delete", NotNow("denied the request: too few"))
        await world.look()
        assert world.done("delete") == ["a-0", "a-1"] and world.events() == ["RolloutWaiting"]
        assert 'rollout_operator_group_reconciles_failed_total{rollout_group="db"} 1.0' in world.metrics.text()

    run(test)


def test_a_pod_whose_name_another_one_has_by_now_is_gone() -> None:
    """Its deletion is a conflict, too, and nothing is said about that."""

    async def test(world: World) -> None:
        await world.see()

        async def replaced(asked: Any) -> str:
            world.put(pod("a", "v2"))
            return ""

        world.rollouts._refused = replaced  # type: ignore[method-assign]
        await world.look()
        assert world.events() == [] and world.done("delete") == ["a-0"]
        assert PODS.path("shop", "a-0") in world.api.objects

    run(test)


def test_of_a_group_that_is_gone_nothing_is_counted() -> None:
    """Whoever may label sets names groups: thousands of names would be kept, and shown, for ever."""

    async def test(world: World) -> None:
        await world.see()
        await world.look()
        assert 'rollout_group="db"' in world.metrics.text()
        for name in ("a", "b"):
            del world.api.objects[STATEFUL_SETS.path("shop", name)]
        await world.see()
        await world.look()
        assert 'rollout_group="db"' not in world.metrics.text()

    run(test)


def test_changes_are_looked_at_by_whoever_leads() -> None:
    """All groups at first, then each that has changed: a pod that gets ready brings the next deletion at once."""

    async def test(world: World) -> None:
        rollouts = world.rollouts
        tasks = [asyncio.ensure_future(i.run()) for i in rollouts.caches["shop"].informers]
        tasks.append(asyncio.ensure_future(rollouts.run()))
        async with asyncio.timeout(60):
            while world.done("delete") != ["a-0"]:
                await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(test)


def test_what_is_gone_is_forgotten() -> None:
    """Sets that leave the group, or were replaced by others of the same name, and pods that ended."""

    async def test(world: World) -> None:
        cache = world.rollouts.caches["shop"]
        await world.see()
        assert cache.groups() == {GROUP} and len(cache.of(GROUP)[1]) == 2
        again = stateful_set("a")
        again["metadata"]["uid"] = "uid-again"
        world.put(again, pod("a"))
        del world.api.objects[STATEFUL_SETS.path("shop", "b")], world.api.objects[PODS.path("shop", "b-0")]
        await world.see()
        sets, pods = cache.of(GROUP)
        assert [(each.name, each.uid) for each in sets] == [("a", "uid-again")] and pods == []

    run(test)


def test_selectors_are_queries() -> None:
    """Each operator that a StatefulSet may have."""
    expressions = [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "b", "operator": "NotIn", "values": ["z"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"app": "db"}, "matchExpressions": expressions}
    assert selector_query(selector) == "app=db,a in (x,y),b notin (z),c,!d"


def put_run(world: World, *, groups: str = "", holder: str = "anna") -> None:
    """The Lease of a run of the upgrader."""
    spec = {"holderIdentity": holder, "renewTime": "t1", "leaseDurationSeconds": 60}
    notes = {"upgrader.io/run": "run-7", "guard.upgrader.io/groups": groups}
    world.api.put(LEASES, {"metadata": {"name": "upgrader", "annotations": notes}, "spec": spec}, "kube-system")


def begun(world: World) -> str:
    """What the leader has noted."""
    notes = world.api.objects[LEASES.path("ops", "guard")]["metadata"].get("annotations") or {}
    return str(notes.get(ROLLING, ""))


def held(test: Callable[[World], Awaitable[None]]) -> None:
    """In a world where runs hold groups, and one is alive."""

    async def whole() -> None:
        world = World()
        holds = RunLease(world.api), RollingGroups(world.api, "ops", "guard")
        locks = GroupLocks(world.api, "ops")
        world.rollouts = Rollouts(world.api, ["shop"], world.leadership, world.metrics, 5, locks=locks, holds=holds)
        world.api.put(LEASES, {"metadata": {"name": "guard"}, "spec": {}}, "ops")
        put_run(world)
        await world.see()
        await test(world)

    asyncio.run(whole())


def test_a_run_that_is_alive_holds_what_has_not_begun() -> None:
    """An Event says so; it begins once the run has released its Lease, and is noted before the first pod goes."""

    async def test(world: World) -> None:
        for _ in range(2):
            await world.look()
        assert world.done("delete") == [] and world.events() == ["RolloutHeld"] and begun(world) == ""
        put_run(world, holder="")
        await world.rollouts._holds[0].look()  # type: ignore[index]
        await world.look()
        assert world.done("delete") == ["a-0"] and begun(world) == "shop/db"
        noted, deleted = (
            next(number for number, call in enumerate(world.api.calls) if call.startswith(what))
            for what in ("replace", "delete")
        )
        assert noted < deleted

    held(test)


def test_a_group_that_the_run_names_rolls() -> None:
    """By what the Lease says at that moment."""

    async def test(world: World) -> None:
        put_run(world, groups="shop/db")
        await world.look()
        assert world.done("delete") == ["a-0"]

    held(test)


def test_a_group_in_the_middle_is_not_stopped_half_way() -> None:
    """Whoever leads now knows from the Lease that it has begun; at the end it no longer counts as such."""

    async def test(world: World) -> None:
        notes = {"name": "guard", "annotations": {ROLLING: "shop/db"}}
        world.api.put(LEASES, {"metadata": notes, "spec": {}}, "ops")
        world.put(pod("a", "v2"))
        del world.api.objects[PODS.path("shop", "b-0")]
        world.put(pod("b"))
        await world.see()
        await world.look()
        assert world.done("delete") == ["b-0"]
        world.put(pod("b", "v2"))
        for _ in range(2):
            await world.see()
            await world.look()
        assert begun(world) == ""

    held(test)


def test_a_group_that_was_deleted_while_nobody_led_no_longer_counts_as_begun() -> None:
    """Whoever leads next finds it in the note alone; another one of its name has begun nothing."""

    async def test(world: World) -> None:
        notes = {"name": "guard", "annotations": {ROLLING: "else/cache,shop/cache,shop/db"}}
        world.api.put(LEASES, {"metadata": notes, "spec": {}}, "ops")
        await lead(world.rollouts._work, lambda: "shop/cache" not in begun(world))
        assert begun(world) == "else/cache,shop/db"

    held(test)


def test_groups_that_begin_at_once_are_both_known_to_have_begun() -> None:
    """They are looked at together: the answer to the first one's write may come after the second one's."""

    async def run() -> None:
        api = FakeApi()
        api.put(LEASES, {"metadata": {"name": "guard-rollout"}}, "ops")
        plain, late = api.replace, iter((20, 0, 0, 0))

        async def replace(*given: Any, **more: Any) -> Any:
            turns, found = next(late), await plain(*given, **more)
            for _ in range(turns):
                await asyncio.sleep(0)
            return found

        api.replace = replace  # type: ignore[method-assign]
        groups = RollingGroups(api, "ops", "guard-rollout")
        await asyncio.gather(groups.add("shop/db"), groups.add("zoo/db"))
        assert await groups.all() == {"shop/db", "zoo/db"}
        await asyncio.gather(groups.remove("shop/db"), groups.remove("zoo/db"))
        assert await groups.all() == set() == await RollingGroups(api, "ops", "guard-rollout").all()

    asyncio.run(run())


@pytest.mark.parametrize("error", [ApiAway("away"), ApiRefused("leases is forbidden", 403)])
def test_whether_a_run_is_alive_must_be_known(error: Exception) -> None:
    """Nothing is deleted as long as its Lease can't be read; what is there for other reasons goes on."""

    async def test(world: World) -> None:
        world.api.next_answer("get", error)
        await world.look()
        assert world.done("delete") == []
        assert "reconciles_failed_total" in world.metrics.text()

    held(test)


LEASE = LEASES.path("ops", "guard-group.shop.db")


def noted(world: World) -> GroupLease:
    """What the group's Lease says."""
    return read(world.api.objects[LEASE])


def put_lease(world: World, lease: GroupLease, renewed: float = 0.0) -> None:
    """As another process has written it."""
    world.api.put(LEASES, manifest("ops", GROUP, None, lease, renewed), "ops")


def test_pods_are_deleted_with_the_groups_lock() -> None:
    """It is taken before the group is read from the API, and given back at the end, also where the API goes away."""

    async def test(world: World) -> None:
        await world.see()
        await world.look()
        calls = [call for call in world.api.calls if not call.startswith("page") or "limit" in call]
        locked = next(n for n, call in enumerate(calls) if call == f"create {LEASE}")
        (deleted,) = (n for n, call in enumerate(calls) if call.startswith("delete "))
        read_again = [n for n, call in enumerate(calls) if call.startswith("page") and locked < n < deleted]
        assert len(read_again) == 3, "the sets, and the pods of both"
        assert noted(world).lock is None
        world.put(pod("a", "v1"))
        await world.see()
        world.api.next_answer("delete", ApiAway("away"))
        await world.look()
        assert noted(world).lock is None

    run(test)


def test_a_group_that_is_locked_by_a_downscale_is_not_rolled() -> None:
    """An Event says by whom; it goes on once the lock is gone."""

    async def test(world: World) -> None:
        put_lease(world, GroupLease(Lock("webhook", "a downscale of b from 1 to 0 replicas")))
        await world.see()
        await world.look()
        assert world.done("delete") == [] and world.events() == ["RolloutWaiting"]
        put_lease(world, GroupLease())
        await world.look()
        assert world.done("delete") == ["a-0"]

    run(test)


def test_what_a_killed_leader_has_locked_is_the_next_ones() -> None:
    """It doesn't wait for the lock to be given up: the leader before has stopped by then."""

    async def test(world: World) -> None:
        put_lease(world, GroupLease(Lock("guard-rollout", "a rollout")))
        await world.see()
        await world.look()
        assert world.done("delete") == ["a-0"]

    run(test)


def test_a_downscale_that_is_allowed_and_not_seen_keeps_pods() -> None:
    """The zone may lose its pods at any time: no other one may at the same time."""

    async def test(world: World) -> None:
        put_lease(world, GroupLease(None, {"b": Record("uid-b", unseen=Open(1000.0, 1, 0, 1))}))
        await world.see()
        await world.look()
        assert world.done("delete") == [] and world.events() == ["RolloutWaiting"]
        assert noted(world).lock is None

    run(test)


def test_a_lease_that_nobody_can_read_keeps_pods() -> None:
    """It says to delete the Lease."""

    async def test(world: World) -> None:
        item = manifest("ops", GROUP, None, GroupLease(), 0.0)
        item["metadata"]["annotations"][SETS] = "{"
        world.api.put(LEASES, item, "ops")
        await world.see()
        await world.look()
        assert world.done("delete") == []
        (told,) = (item for path, item in world.api.objects.items() if "/events/" in path)
        assert "the Lease ops/guard-group.shop.db can't be read" in told["message"] and "delete it" in told["message"]

    run(test)
