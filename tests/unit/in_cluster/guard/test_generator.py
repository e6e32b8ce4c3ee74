"""The generator as it acts: what it writes, in which order, and what it leaves alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.protector_world import Sure, counted, protector, put, see, stored
from upgrader.in_cluster.guard.core.generator import FINALIZER
from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.roles.generator import DEPLOYMENTS, Generator
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, ProtectorCache
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics

KEY = ("shop", "web")
MADE = POD_PROTECTORS.path("shop", "deployment-web")


def deployment(replicas: int = 4, labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """`web`, which is protected and keeps three of four."""
    own = {"podseidon.kubewharf.io/protect": "true"} if labels is None else labels
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": {"spec": {}}}
    return {"metadata": {"name": "web", "labels": own, **metadata}, "spec": spec}


class World:
    """A generator that leads, and knows what was there when it last looked."""

    def __init__(self) -> None:
        self.api, self.metrics = FakeApi(), Metrics()
        self.leadership = Sure(self.api, "ops", "guard", "me")
        self.cache = ProtectorCache(self.api, [], Tuning())
        counts = ProtectorMetrics(self.metrics)
        protect = Selector.parse("podseidon.kubewharf.io/protect=true")
        self.role = Generator(self.api, self.cache, [], protect, self.leadership, counts, now=lambda: 0.0)

    def put(self, found: dict[str, Any]) -> None:
        """A Deployment."""
        self.api.put(DEPLOYMENTS, found, "shop")

    async def look(self, key: tuple[str, str] = KEY) -> None:
        """See what there is, and look at the Deployment."""
        await see(self.cache)
        for informer in self.role.deployments:
            await informer._list()
        await self.role._look_at(key)

    @property
    def source(self) -> dict[str, Any]:
        """The Deployment as it is."""
        return self.api.objects[DEPLOYMENTS.path("shop", "web")]

    def writes(self) -> list[str]:
        """What was written, in order, and forgotten."""
        found = [" ".join(c.split("/")[0:1]).strip() + " " + c.rpartition("/")[2] for c in self.api.calls]
        self.api.calls.clear()
        return [each for each in found if each.split()[0] in ("create", "replace", "patch", "delete")]


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(World())

    asyncio.run(whole())


def test_a_deployment_gets_its_protector() -> None:
    """First the finalizer, so that its deletion is always seen; then the protector; then what it says of itself. The
    second time there is nothing to do.
    """

    async def test(world: World) -> None:
        world.put(deployment())
        await world.look()
        assert world.writes() == ["patch web", "create deployment-web", "replace deployment-web"]
        assert world.source["metadata"]["finalizers"] == [FINALIZER]
        made = world.api.objects[MADE]
        assert (made["spec"]["minAvailable"], made["metadata"]["finalizers"]) == (3, [FINALIZER])
        assert made["kind"] == "PodProtector"
        assert [c["status"] for c in made["status"]["conditions"]] == ["True", "True"]
        await world.look()
        assert world.writes() == []

    run(test)


def test_it_follows_its_deployment_and_keeps_what_people_added() -> None:
    """Another number of replicas; labels and tuning that people added stay, and what the cells have counted."""

    async def test(world: World) -> None:
        world.put(deployment())
        await world.look()
        made = world.api.objects[MADE]
        made["spec"]["admissionHistoryConfig"] = {"maxConcurrentLag": 3}
        made["status"]["cells"] = [{"cellID": "a", **counted(4)}]
        world.put(deployment(8, finalizers=[FINALIZER, "theirs"]))
        await world.look()
        made = world.api.objects[MADE]
        assert (made["spec"]["minAvailable"], made["spec"]["admissionHistoryConfig"]) == (6, {"maxConcurrentLag": 3})
        assert made["status"]["cells"][0]["cellID"] == "a"

    run(test)


@pytest.mark.parametrize("least", ["3", None])
def test_its_protector_is_corrected_where_the_definition_lets_another_type_in(least: object) -> None:
    """Until then, no pod of the namespace goes: the minimum isn't known."""

    async def test(world: World) -> None:
        world.put(deployment())
        await world.look()
        made = world.api.objects[MADE]
        world.api.put(POD_PROTECTORS, {**made, "spec": {**made["spec"], "minAvailable": least}}, "shop")
        await world.look()
        assert world.api.objects[MADE]["spec"]["minAvailable"] == 3
        await see(world.cache)
        assert world.cache.unreadable("shop", {}) is None

    run(test)


def test_a_status_of_another_type_is_left_to_people(caplog: pytest.LogCaptureFixture) -> None:
    """What its cells had allowed isn't known; it is tried again, with a reason in the log."""

    async def test(world: World) -> None:
        world.put(deployment())
        await world.look()
        made = world.api.objects[MADE]
        world.api.put(POD_PROTECTORS, {**made, "status": {"cells": "none"}}, "shop")
        await world.look()
        assert world.api.objects[MADE]["status"] == {"cells": "none"}
        assert 'generator_reconcile_count{error="InvalidProtector"} 1.0' in world.metrics.text()
        said = ["a PodProtector can't be read", "reconciling a PodProtector failed"]
        assert [each.getMessage() for each in caplog.records] == said

    caplog.set_level("WARNING")
    run(test)


def test_a_deployment_that_is_deleted_is_let_go_last() -> None:
    """First its protector goes, then its finalizer."""

    async def test(world: World) -> None:
        world.put(deployment())
        await world.look()
        world.put(deployment(deletionTimestamp="1970-01-01T00:00:00Z", finalizers=["theirs", FINALIZER]))
        world.writes()
        await world.look()
        assert world.writes() == ["replace deployment-web", "delete deployment-web", "patch web"]
        assert MADE not in world.api.objects and world.source["metadata"]["finalizers"] == ["theirs"]

    run(test)


def test_one_that_has_vanished_leaves_its_protector_which_says_so() -> None:
    """Once; until the Deployment is there again, or somebody deletes the protector."""

    async def test(world: World) -> None:
        world.put(deployment())
        await world.look()
        del world.api.objects[DEPLOYMENTS.path("shop", "web")]
        world.writes()
        await world.look()
        await world.look()
        assert world.writes() == ["replace deployment-web"]
        conditions = {c["type"]: c["status"] for c in world.api.objects[MADE]["status"]["conditions"]}
        assert conditions == {"Protects": "True", "SourceFound": "False"}
        world.put(deployment())
        await world.look()
        assert {c["status"] for c in world.api.objects[MADE]["status"]["conditions"]} == {"True"}
        del world.api.objects[DEPLOYMENTS.path("shop", "web")]
        made = world.api.objects[MADE]
        made["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z"
        made["status"]["cells"] = [{"cellID": "a", **counted(4)}]
        world.api.put(POD_PROTECTORS, made, "shop")
        await world.look()
        world.writes()
        await world.look()
        assert world.writes() == [] and world.api.objects[MADE]["metadata"]["finalizers"] == [FINALIZER], "it has pods"
        made = world.api.objects[MADE]
        made["status"]["cells"] = [{"cellID": "a", **counted(0)}]
        world.api.put(POD_PROTECTORS, made, "shop")
        await world.look()
        assert world.writes() == ["replace deployment-web"]
        assert world.api.objects[MADE]["metadata"]["finalizers"] == []

    run(test)


def test_one_that_is_applied_again_with_fewer_keeps_its_pods_until_it_has_as_many() -> None:
    """It is written once what it waits for; the annotation that ends that is taken off, as it is for this time only."""

    async def test(world: World) -> None:
        world.put(deployment(12))
        await world.look()
        del world.api.objects[DEPLOYMENTS.path("shop", "web")]
        await world.look()
        world.put(deployment(1, uid="another"))
        world.writes()
        await world.look()
        assert world.writes() == ["patch web", "replace deployment-web"]
        await world.look()
        assert world.writes() == []
        made = world.api.objects[MADE]
        assert made["spec"]["minAvailable"] == 9
        assert {c["reason"] for c in made["status"]["conditions"]} == {"RollingUpdate", "AppliedAgain"}
        made["metadata"]["annotations"]["guard.upgrader.io/release"] = "true"
        world.api.put(POD_PROTECTORS, made, "shop")
        await world.look()
        made = world.api.objects[MADE]
        assert made["spec"]["minAvailable"] == 1
        assert made["metadata"]["annotations"] == {"guard.upgrader.io/source-uid": world.source["metadata"]["uid"]}
        assert {c["reason"] for c in made["status"]["conditions"]} == {"RollingUpdate", "Exists"}

    run(test)


@pytest.mark.parametrize("least", [1, 3])
def test_one_that_is_deleted_goes_where_another_one_protects_the_same_pods(least: int) -> None:
    """And as many of them; what keeps fewer is no reason."""

    async def test(world: World) -> None:
        world.put(deployment())
        await world.look()
        del world.api.objects[DEPLOYMENTS.path("shop", "web")]
        made = world.api.objects[MADE]
        made["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z"
        world.api.put(POD_PROTECTORS, made, "shop")
        put(world.api, protector(least, "theirs"))
        await world.look()
        assert world.api.objects[MADE]["metadata"]["finalizers"] == ([] if least == 3 else [FINALIZER])

    run(test)


def test_what_people_made_is_left_to_them() -> None:
    """A protector of that name without the labels of a source is neither changed nor taken away."""

    async def test(world: World) -> None:
        put(world.api, protector(1, "deployment-web"))
        world.put(deployment(labels={}))
        await world.look()
        assert world.writes() == []
        for found in (deployment(), deployment(deletionTimestamp="1970-01-01T00:00:00Z", finalizers=[])):
            world.put(found)
            await world.look()
            assert stored(world.api, "deployment-web")["spec"]["minAvailable"] == 1
            assert world.writes() == []

    run(test)


def test_cells_are_forgotten_once() -> None:
    """What the annotation names, then the annotation itself; other annotations and cells stay."""

    async def test(world: World) -> None:
        found = protector(cells={"a": counted(2), "b": counted(3)})
        found["metadata"]["annotations"] = {"podseidon.kubewharf.io/remove-cell-once": "b,c", "x": "y"}
        put(world.api, found)
        await world.look(("shop", "/web"))
        assert [c["cellID"] for c in stored(world.api)["status"]["cells"]] == ["a"]
        assert stored(world.api)["status"]["summary"]["totalReplicas"] == 2
        assert stored(world.api)["metadata"]["annotations"] == {"x": "y"}
        world.writes()
        await world.look(("shop", "/web"))
        assert world.writes() == []

    run(test)


@pytest.mark.parametrize(
    "error", [ApiAway("away"), ApiRefused("forbidden", 403), Conflict("modified", 409), ValueError("odd")]
)
def test_what_fails_is_done_again(error: Exception) -> None:
    """And counted by its kind, what nobody thought of, too; each step may have been done already."""

    async def test(world: World) -> None:
        world.put(deployment())
        world.api.next_answer("create", error)
        await world.look()
        kind = type(error).__name__
        assert f'generator_reconcile_count{{error="{kind}"}} 1.0' in world.metrics.text()
        assert MADE not in world.api.objects
        await world.look()
        assert MADE in world.api.objects and world.source["metadata"]["finalizers"] == [FINALIZER]

    run(test)


def test_who_may_not_lead_writes_nothing() -> None:
    """Not even what it has decided while it led."""

    async def test(world: World) -> None:
        world.put(deployment())
        world.leadership.is_sure = False
        await world.look()
        assert world.writes() == []

    run(test)


def test_a_namespace_that_cannot_be_listed_leaves_the_others_protected() -> None:
    """Its administrator has deleted guard's RoleBinding: Deployments of others get their PodProtectors."""

    async def test(world: World) -> None:
        world.put(deployment())
        cache = ProtectorCache(world.api, ["lab", "shop"], Tuning())
        protect = Selector.parse("podseidon.kubewharf.io/protect=true")
        metrics = ProtectorMetrics(Metrics())
        role = Generator(world.api, cache, ["lab", "shop"], protect, world.leadership, metrics)
        here = (cache.followed["shop"], role._informers["shop"])
        tasks = [asyncio.ensure_future(each) for each in (role.run(), *(informer.run() for informer in here))]
        async with asyncio.timeout(5):
            while MADE not in world.api.objects:
                await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(test)


def test_changes_are_looked_at_by_whoever_leads() -> None:
    """All Deployments at first, and protectors that have lost theirs."""

    async def test(world: World) -> None:
        world.put(deployment())
        tasks = [asyncio.ensure_future(i.run()) for i in (*world.cache.informers, *world.role.deployments)]
        tasks.append(asyncio.ensure_future(world.role.run()))
        async with asyncio.timeout(5):
            while MADE not in world.api.objects:
                await asyncio.sleep(0.001)
        assert 'leader_heartbeat{component="generator"}' in world.metrics.text()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert 'leader_heartbeat{component="generator"}' not in world.metrics.text()

    run(test)
