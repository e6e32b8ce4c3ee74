"""The aggregator as it acts: what it reads before it strikes a deletion off, and when it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from testkit.memory import TracedMemory
from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.protector_world import (
    LABELS,
    Sure,
    bucket,
    counted,
    pod,
    protector,
    put,
    see,
    stored,
    uids,
)
from upgrader.in_cluster.guard.core.protector import ProtectorRequest, Tuning
from upgrader.in_cluster.guard.core.protector_object import status
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound
from upgrader.in_cluster.guard.roles.aggregator import Aggregator
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS, PodsOfCell, counted_pod
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, ProtectorCache, Unreadable
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics

KEY = ("shop", "web")
LABELLED = {"matchLabels": {"app": "web"}}


class World:
    """An aggregator of the cell `a` that leads; protectors and pods are in one cluster. Its clock is the test's."""

    def __init__(self, labels: str = "", api: FakeApi | None = None) -> None:
        """`labels`: of the pods that it follows; its cache has all of them. `api`: that another one has, too."""
        self.api, self.metrics = api or FakeApi(), Metrics()
        self.now = 2000.0
        self.set_by = 0.0
        """By how many seconds the clock of the day was set."""
        self.leadership = Sure(self.api, "ops", "guard", "me")
        self.cache = ProtectorCache(self.api, [], Tuning())
        counts = ProtectorMetrics(self.metrics)
        self.role = Aggregator(
            self.api,
            self.api,
            self.cache,
            "a",
            [],
            self.leadership,
            counts,
            now=lambda: self.now + self.set_by,
            clock=lambda: self.now,
            chance=lambda: 0.0,
            labels=labels,
        )
        self.pods = PodsOfCell(self.api, [], labels, self.role._pod_changed, lambda: self.now)
        self.role._pods = self.pods

    async def see(self) -> None:
        """The caches know what there is now."""
        await see(self.cache)
        await self.see_pods()

    async def see_pods(self) -> None:
        """The watch of the pods is ahead of the protectors' watch."""
        for informer in self.pods.informers:
            await informer._list()

    async def look(self) -> None:
        """At the protector, once."""
        self.api.calls.clear()
        await self.role._look_at(KEY)

    def done(self, verb: str) -> list[str]:
        """The names of what was asked for by this verb."""
        return [call.rpartition("/")[2] for call in self.api.calls if call.startswith(f"{verb} ")]

    def counts(self) -> tuple[int, int]:
        """Total and available of the cell."""
        found = stored(self.api)["status"]["cells"][0]["aggregation"]
        return found["totalReplicas"], found["availableReplicas"]


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(World())

    asyncio.run(whole())


def gone(api: FakeApi, name: str) -> None:
    """A pod is deleted."""
    del api.objects[PODS.path("shop", name)]


def selecting(api: FakeApi, app: str) -> dict[str, Any]:
    """The protector as it is, with another selector."""
    found = stored(api)
    return {**found, "spec": {**found["spec"], "selector": {"matchLabels": {"app": app}}}}


def test_pods_are_counted_and_written_once() -> None:
    """Also a cell without any; the second time nothing has changed, and nothing is written."""

    async def test(world: World) -> None:
        put(world.api, protector())
        await world.see()
        await world.look()
        assert world.counts() == (0, 0)
        put(world.api, pod("x"), pod("y", ready=False))
        await world.see()
        await world.look()
        assert world.counts() == (2, 1) and stored(world.api)["status"]["summary"]["estimatedAvailableReplicas"] == 1
        await world.see()
        await world.look()
        assert world.done("replace") == [] and world.done("get") == []

    run(test)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_nobody_can_write_ends_nothing(time: str) -> None:
    """Who may write a status in a namespace would end what counts the pods of all; the schema lets them through."""

    async def test(world: World) -> None:
        strange = counted(1, {**bucket("uid-a"), "startTime": time})
        strange["aggregation"]["lastEventTime"] = time
        put(world.api, protector(cells={"b": strange}), pod("a"))
        await world.see()
        await world.look()
        assert [each["cellID"] for each in stored(world.api)["status"]["cells"]] == ["a", "b"]

    run(test)


def test_a_look_walks_the_pods_of_one_protector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of all others in the namespace, which cost most of its time; and it follows labels and selectors."""

    async def test(world: World) -> None:
        other = {"app": "other"}
        put(world.api, protector(), pod("x"), *(pod(f"o-{number}", labels=other) for number in range(200)))
        await world.see()
        await world.look()
        asked = list[Any]()
        plain = Selector.matches

        def matches(self: Selector, labels: Any) -> bool:
            asked.append(labels)
            return plain(self, labels)

        monkeypatch.setattr(Selector, "matches", matches)
        await world.look()
        assert 0 < len(asked) < 10
        monkeypatch.undo()
        put(world.api, pod("o-0"), pod("x", labels=other))
        await world.see()
        await world.look()
        assert world.counts() == (1, 1)
        changed = stored(world.api)
        changed["spec"]["selector"] = {"matchLabels": other}
        put(world.api, changed)
        await world.see()
        await world.look()
        assert world.counts() == (200, 200)

    run(test)


def test_of_many_protectors_and_pods_few_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the deletion of a pod asks each of 100 protectors whether it counts the pod, nor does a protector's first
    look ask each of 300 pods.
    """
    asked = list[Any]()
    plain = Selector.matches

    def matches(self: Selector, labels: Any) -> bool:
        asked.append(labels)
        return plain(self, labels)

    async def test(world: World) -> None:
        for number in range(100):
            labels = {"environment": "production", "app": f"web-{number}"}
            put(world.api, protector(1, f"web-{number}", selector={"matchLabels": labels}))
            put(world.api, *(pod(f"p-{number}-{each}", labels=labels) for each in range(3)))
        await world.see()
        monkeypatch.setattr(Selector, "matches", matches)
        await world.role._look_at(("shop", "web-7"))
        assert stored(world.api, "web-7")["status"]["summary"]["totalReplicas"] == 3
        first = len(asked)
        gone(world.api, "p-7-0")
        await world.see_pods()
        event = len(asked) - first
        await world.role._look_at(("shop", "web-7"))
        assert stored(world.api, "web-7")["status"]["summary"]["totalReplicas"] == 2
        second = len(asked) - event - first
        assert 0 < first < 15 and 0 < event < 15 and 0 < second < 15, (first, event, second)

    run(test)


@pytest.mark.parametrize("selector", [{"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}, LABELLED])
@pytest.mark.parametrize(
    "labels", [{f"label-{number}": "" for number in range(65)}, {"a/" + "x" * 9000: ""}], ids=["many", "long"]
)
def test_a_pod_of_too_many_labels_is_never_available(selector: dict[str, Any], labels: dict[str, str]) -> None:
    """They aren't kept, so it isn't known what selects the pod, and no other pod may go because of it."""

    async def test(world: World) -> None:
        put(world.api, protector(selector=selector), pod("x"), pod("y", labels={"app": "web", **labels}))
        await world.see()
        await world.look()
        cell = stored(world.api)["status"]["cells"][0]["aggregation"]
        assert [cell[f"{kind}Replicas"] for kind in ("available", "ready", "scheduled", "running")] == [1, 1, 1, 1]
        (kept,) = (each for each in world.pods.of("shop").values() if each.name == "y")
        assert kept.labels == {} and not kept.finished

    run(test)


def test_of_a_large_pod_little_is_kept() -> None:
    """Labels of 1 MB took 4 MiB for as long as the pod was there."""

    async def test(world: World) -> None:
        labels = {f"label-{number}": f"v-{number}" for number in range(1000)}
        put(world.api, *(pod(f"x-{number}", labels=labels, annotations={"note": "x" * 10_000}) for number in range(4)))
        with TracedMemory() as memory:
            await world.see()
            kept = memory.kept
        assert kept / 4 < 40_960

    run(test)


def test_a_definition_without_the_hash_leads_to_no_write_after_write() -> None:
    """One of another version drops the field: each write would be a change to be looked at, and written, again."""

    async def test(world: World) -> None:
        put(world.api, protector(), pod("x"))
        written = list[int]()
        for _ in range(3):
            await world.see()
            world.now += 1.0
            await world.look()
            written.append(len(world.done("replace")))
            stored(world.api)["status"]["cells"][0]["aggregation"].pop("selectorHash", None)
        assert written == [1, 0, 0]

    run(test)


def test_that_nothing_changed_is_told_every_half_minute() -> None:
    """So that people see that somebody counts."""

    async def test(world: World) -> None:
        put(world.api, protector())
        await world.see()
        await world.look()
        for later, written in ((2029.0, []), (2031.0, ["web"])):
            world.now = later
            await world.see()
            await world.look()
            assert world.done("replace") == written

    run(test)


def test_that_it_counts_is_told_after_a_clock_was_wrong() -> None:
    """An hour ahead until a moment ago: the time goes back, as one that stands still says that nobody counts."""

    async def test(world: World) -> None:
        put(world.api, protector())
        world.now = 5600.0
        await world.see()
        await world.look()
        for now, written in ((2000.0, ["web"]), (2001.0, []), (2031.0, ["web"])):
            world.now = now
            await world.see()
            await world.look()
            assert world.done("replace") == written

    run(test)


def test_deletions_without_names_are_struck_off_a_minute_after_the_last_of_them() -> None:
    """By this process's clock: the webhook that has allowed them is in another cluster, an hour behind, or ahead."""

    async def test(world: World, begun: str) -> None:
        many = {"startTime": f"1970-01-01T{begun}:00.000000Z", "counter": 7}
        put(world.api, protector(cells={"a": counted(9, many)}))
        for now, left in ((2000.0, 7), (2059.0, 7), (2061.0, 0)):
            world.now = now
            await world.see()
            await world.look()
            assert sum(each["counter"] for each in buckets(world.api)) == left
        put(world.api, protector(cells={"a": counted(9, {**many, "counter": 8})}))
        world.now = 2062.0
        await world.see()
        await world.look()
        assert buckets(world.api), "another one has come to them"

    run(lambda world: test(world, "00:00"))
    run(lambda world: test(world, "09:00"))


@pytest.mark.parametrize("behind", [0.0, 300.0])
@pytest.mark.parametrize("threshold", [0, 1])
def test_a_pod_of_many_that_is_asked_for_again_stays_for_another_minute(threshold: int, behind: float) -> None:
    """Its first deletion was refused by others, and the second one may be under way: its place isn't free before the
    pod has gone, also where its name isn't kept, and where the replica that has allowed the second one has a clock that
    is five minutes behind.
    """

    async def test(world: World) -> None:
        async def allow(name: str, request: str, at: float) -> None:
            asked = ProtectorRequest(request, counted_pod(world.api.objects[PODS.path("shop", name)]), cell="a")
            item = stored(world.api)
            held = world.cache.read(item).reserve(asked, at)
            put(world.api, {**item, "status": status(held, item["status"])})
            await world.see()

        async def left_at(now: float) -> set[str]:
            world.now = now
            await world.look()
            await world.see()
            return {uid for each in world.cache.read(stored(world.api)).cells[0].buckets for uid in each.known}

        tuning = {"compactThreshold": threshold}
        put(world.api, protector(cells={"a": counted(3)}, admissionHistoryConfig=tuning), pod("x"), pod("y"))
        await world.see()
        await world.look()
        await world.see()
        for name in ("x", "y"):
            await allow(name, f"first-of-{name}", 2000.0)
        assert await left_at(2000.0) == {"uid-x", "uid-y"}
        await allow("x", "second-of-x", 2059.0 - behind)
        if threshold:
            await allow("y", "second-of-y", 2059.5 - behind)
        assert "uid-x" in await left_at(2061.0)
        assert "uid-x" in await left_at(2120.0)
        assert await left_at(2121.0) == set()

    run(test)


def test_setting_the_clock_ends_no_minute() -> None:
    """An hour forward: what was allowed just now may still happen."""

    async def test(world: World) -> None:
        put(world.api, protector(cells={"a": counted(9, {**bucket(""), "counter": 7}, bucket("uid-x", "r", name="x"))}))
        put(world.api, pod("x"))
        await world.see()
        await world.look()
        world.set_by = 3600.0
        await world.look()
        assert len(buckets(world.api)) == 2 and "x" not in world.done("get")

    run(test)


def test_a_pod_is_young_since_it_was_seen_to_become_ready() -> None:
    """By no clock but the process's own: it is named until minReadySeconds are over, also after it was unready for a
    moment, and after another one leads that has not seen it.
    """

    async def test(world: World) -> None:
        def ready(at: str) -> dict[str, Any]:
            found = pod("x")
            found["status"]["conditions"][1]["lastTransitionTime"] = f"1970-01-01T{at}Z"
            return found

        async def young_at(now: float) -> tuple[int, list[str]]:
            world.now = now
            await world.see()
            await world.look()
            found = stored(world.api)["status"]["cells"][0]["aggregation"]
            return found["availableReplicas"], found.get("recentlyReadyUIDs", [])

        put(world.api, protector(minReadySeconds=60), pod("x", ready=False))
        assert await young_at(2000.0) == (0, [])
        put(world.api, ready("09:00:00"))
        assert await young_at(2010.0) == (0, ["uid-x"])
        assert await young_at(2069.0) == (0, ["uid-x"])
        put(world.api, ready("00:00:00"))  # unready for a moment, which nobody saw
        assert await young_at(2070.0) == (0, ["uid-x"])
        world.role._became_ready.forget()
        assert await young_at(2080.0) == (0, ["uid-x"])
        assert await young_at(2141.0) == (1, [])
        gone(world.api, "x")
        assert await young_at(2142.0) == (0, []) and world.role._became_ready.seconds("uid-x") is None

    run(test)


def test_what_a_silent_watch_did_not_tell_is_listed_before_deletions_are_forgotten() -> None:
    """Its cache still has all pods, as a watch that says nothing leaves it so: they aren't counted any more, neither
    with that write nor later.
    """

    async def test(world: World) -> None:
        put(world.api, protector(5, cells={"a": counted(9, {**bucket(""), "counter": 7})}))
        put(world.api, *(pod(f"p-{number}") for number in range(9)))
        await world.see()
        await world.look()
        for number in range(7):
            gone(world.api, f"p-{number}")
        world.now = 2061.0
        await world.look()
        assert (world.counts(), buckets(world.api)) == ((2, 2), [])
        world.now = 2100.0
        await see(world.cache)
        await world.look()
        assert world.counts() == (2, 2), "whatever the cache thinks"

    run(test)


def test_a_pod_that_goes_while_all_are_listed_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch tells of its end before the list, which still has it, has come whole: it is struck off, and not counted
    in the same write.
    """

    async def test(world: World) -> None:
        nameless = {**bucket(""), "counter": 1}
        put(world.api, protector(1, cells={"a": counted(3, nameless, bucket("uid-x", "r", name="x"))}))
        put(world.api, pod("x"), pod("y"), pod("z"))
        await world.see()
        await world.look()
        plain = world.api.page

        async def page(*of: Any, **options: Any) -> Any:
            found = await plain(*of, **options)
            monkeypatch.undo()
            gone(world.api, "x")
            await world.see_pods()
            return found

        monkeypatch.setattr(world.api, "page", page)
        world.now = 2061.0
        await world.look()
        assert (world.counts(), buckets(world.api)) == ((2, 2), [])

    run(test)


def test_pods_of_a_bucket_of_many_are_struck_off_as_they_go() -> None:
    """Their names were left out, their UIDs weren't: nobody waits for a minute."""

    async def test(world: World) -> None:
        many = {**bucket(""), "podUIDs": ["uid-x", "uid-y", "uid-z"], "counter": 3}
        put(world.api, protector(cells={"a": counted(3, many)}), pod("x"), pod("y"), pod("z"))
        await world.see()
        for name in ("x", "y"):
            gone(world.api, name)
        await world.see()
        await world.look()
        assert [each["podUIDs"] for each in buckets(world.api)] == [["uid-z"]]
        assert (world.counts(), buckets(world.api)[0]["counter"]) == ((1, 1), 1)

    run(test)


def buckets(api: FakeApi) -> list[dict[str, Any]]:
    """Of the cell."""
    found: list[dict[str, Any]] = stored(api)["status"]["cells"][0]["admissionHistory"]["buckets"]
    return found


def test_a_deletion_that_was_seen_goes_with_the_pod() -> None:
    """Seen to be gone, without asking the API; and one that terminates."""

    async def test(world: World) -> None:
        buckets = [bucket("uid-x", "r", name="x"), bucket("uid-y", "r", name="y"), bucket("uid-z", "r", name="z")]
        put(world.api, protector(cells={"a": counted(3, *buckets)}), pod("x"), pod("y"), pod("z"))
        await world.see()
        gone(world.api, "x")
        put(world.api, pod("y", deletionTimestamp="1970-01-01T00:00:00Z"))
        await world.see()
        await world.look()
        assert (world.counts(), uids(world.api, "a"), world.done("get")) == ((1, 1), ["uid-z"], [])

    run(test)


@pytest.mark.parametrize(("reason", "left"), [("EvictionByEvictionAPI", []), ("PreemptionByScheduler", ["uid-x"])])
def test_an_eviction_is_over_where_the_pod_says_that_it_was_evicted(reason: str, left: list[str]) -> None:
    """Also when the pod is gone, and the next one is there. Another end leaves the eviction for a minute."""

    async def test(world: World) -> None:
        put(world.api, protector(cells={"a": counted(2, bucket("uid-x", "eviction-r", name="x"))}), pod("x"), pod("y"))
        await world.see()
        going = pod("x", deletionTimestamp="1970-01-01T00:00:00Z")
        going["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": reason})
        put(world.api, going)
        await world.see_pods()
        put(world.api, pod("x", uid="next"))
        await world.see_pods()
        await world.look()
        assert (world.counts(), uids(world.api, "a")) == ((2, 2), left)
        world.now += 60
        await world.look()
        assert uids(world.api, "a") == []

    run(test)


def test_a_pod_that_a_restored_etcd_brings_back_is_counted_again() -> None:
    """Struck off because the API said that it was gone, it is there again, with its UID, in the backup of a moment
    before: ten minutes later no cache that lags can be the reason.
    """

    async def test(world: World) -> None:
        put(world.api, protector(cells={"a": counted(2, bucket("uid-x", "r", name="x"))}), pod("y"))
        await world.see()
        await world.look()
        assert (world.counts(), buckets(world.api)) == ((1, 1), [])
        put(world.api, pod("x"))
        for seconds, count in ((0.0, 1), (599.0, 1), (600.0, 2)):
            world.now = 2000.0 + seconds
            await world.see()
            await world.look()
            assert world.counts() == (count, count)

    run(test)


@pytest.mark.parametrize("named", [True, False])
def test_a_uid_that_it_never_saw_is_read_first(named: bool) -> None:
    """By its name, or among all where podseidon has written none; gone by the API's word, it is struck off; there by
    the API's word, and new to the cache, it stays.
    """

    async def test(world: World) -> None:
        buckets = [bucket(f"uid-{name}", "r", name=name if named else "") for name in ("x", "y")]
        put(world.api, protector(cells={"a": counted(2, *buckets)}))
        await world.see()
        put(world.api, pod("x"))
        await world.look()
        assert uids(world.api, "a") == ["uid-x"]
        assert sorted(world.done("get")) == (["x", "y"] if named else [])

    run(test)


def test_what_the_api_says_holds_until_the_cache_knows_it() -> None:
    """Struck off because the API says that it is gone, a pod isn't counted again because the cache is behind."""

    async def test(world: World) -> None:
        put(world.api, protector(cells={"a": counted(1, bucket("uid-x", "r", name="x"))}), pod("x"))
        await world.see()
        world.now = 2000.0
        await world.look()
        gone(world.api, "x")
        world.now = 2062.0
        await world.look()
        assert (world.counts(), uids(world.api, "a")) == ((0, 0), [])
        await see(world.cache)
        await world.look()
        assert world.counts() == (0, 0)

    run(test)


def test_a_deletion_that_others_refused_is_dropped_after_a_minute() -> None:
    """The pod is there by the API's own word. A new request for it begins a new minute."""

    async def test(world: World) -> None:
        put(world.api, protector(cells={"a": counted(1, bucket("uid-x", "r", name="x"))}), pod("x"))
        await world.see()
        await world.look()
        world.now = 2050.0
        again = bucket("uid-x", "r", "s", name="x")
        put(world.api, protector(cells={"a": counted(1, again)}))
        for now, left in ((2050.0, ["uid-x"]), (2100.0, ["uid-x"]), (2111.0, [])):
            world.now = now
            await world.see()
            await world.look()
            assert uids(world.api, "a") == left
        assert world.counts() == (1, 1)

    run(test)


def test_what_a_webhook_writes_meanwhile_is_kept() -> None:
    """A conflict: the newest is read, and counted again."""

    async def test(world: World) -> None:
        put(world.api, protector(), pod("x"), pod("y"))
        await world.see()
        put(world.api, protector(cells={"a": counted(0, bucket("uid-y", "r", name="y"))}))
        await world.look()
        assert (world.counts(), uids(world.api, "a")) == ((2, 2), ["uid-y"])
        assert stored(world.api)["status"]["summary"]["estimatedAvailableReplicas"] == 1

    run(test)


def test_one_that_is_written_all_the_time_is_counted_later() -> None:
    """After five conflicts others get their turn."""

    async def test(world: World) -> None:
        put(world.api, protector(), pod("x"))
        await world.see()
        world.api.next_answer("replace", *[Conflict("modified", 409)] * 5)
        await world.look()
        assert "status" not in stored(world.api)
        await world.look()
        assert world.counts() == (1, 1)

    run(test)


@pytest.mark.parametrize("error", [ApiAway("away"), ApiRefused("forbidden", 403), ValueError("odd")])
def test_what_fails_is_counted_and_done_again(error: Exception) -> None:
    """By its kind; what nobody thought of, too, as others' protectors are to be counted all the same."""

    async def test(world: World) -> None:
        put(world.api, protector())
        await world.see()
        world.api.next_answer("replace", error)
        await world.look()
        assert f'aggregator_reconcile_count{{error="{type(error).__name__}"}} 1.0' in world.metrics.text()
        await world.look()
        assert world.counts() == (0, 0)

    run(test)


def test_one_that_goes_meanwhile_is_nobodys() -> None:
    """Before the write, or at it."""

    async def test(world: World) -> None:
        put(world.api, protector())
        await world.see()
        world.api.next_answer("replace", NotFound("gone", 404))
        await world.look()
        world.api.next_answer("replace", Conflict("modified", 409))
        del world.api.objects[POD_PROTECTORS.path("shop", "web")]
        await world.look()
        await see(world.cache)
        await world.look()
        assert world.api.calls == [] and 'aggregator_reconcile_count{error=""} 3.0' in world.metrics.text()

    run(test)


def test_who_may_not_lead_writes_nothing() -> None:
    """Not even what it has counted while it led."""

    async def test(world: World) -> None:
        put(world.api, protector())
        await world.see()
        world.leadership.is_sure = False
        await world.look()
        assert world.done("replace") == []

    run(test)


def test_deletions_that_wait_are_measured() -> None:
    """How many protectors have some that are younger than what was seen, and since when."""

    async def test(world: World) -> None:
        put(world.api, protector(cells={"a": counted(1, bucket("uid-x", "r"))}), protector(1, "other"))
        await see(world.cache)
        text = world.metrics.text()
        assert "aggregator_next_event_pool_current_size 1.0" in text
        assert "aggregator_next_event_pool_current_latency 1000.0" in text

    run(test)


def test_pods_that_return_to_the_selector_count_again() -> None:
    """A pod whose labels leave the cell's selector, and come back, isn't taken for gone."""

    async def test(world: World) -> None:
        put(world.api, protector(cells={"a": counted(1, bucket("uid-x", "r", name="x"))}), pod("x"))
        await world.see()
        kept: dict[str, Any] = world.api.objects.pop(PODS.path("shop", "x"))
        await world.see()
        world.api.objects[PODS.path("shop", "x")] = kept
        await world.see()
        await world.look()
        assert (world.counts(), uids(world.api, "a")) == ((1, 1), ["uid-x"])

    run(test)


def test_whoever_begins_to_lead_lists_the_pods() -> None:
    """It counts them then, and forgets them when it leads no longer."""

    async def test(world: World) -> None:
        put(world.api, protector(), pod("x"))
        tasks = [asyncio.ensure_future(i.run()) for i in world.cache.informers]
        tasks.append(asyncio.ensure_future(world.role.run()))
        async with asyncio.timeout(5):
            while "status" not in stored(world.api):
                await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert world.counts() == (1, 1) and world.role._pods is None

    run(test)


def test_a_namespace_that_cannot_be_listed_leaves_the_others_counted() -> None:
    """Its administrator has deleted guard's RoleBinding: that is no reason to count the pods of no other one."""

    class Refusing(FakeApi):
        async def page(self, resource: Any, namespace: str, *args: Any, **kwargs: Any) -> Any:
            if namespace == "lab":
                raise ApiRefused("pods is forbidden", 403)
            return await super().page(resource, namespace, *args, **kwargs)

    async def test() -> None:
        api, metrics = Refusing(), ProtectorMetrics(Metrics())
        cache = ProtectorCache(api, ["lab", "shop"], Tuning())
        role = Aggregator(api, api, cache, "a", ["lab", "shop"], Sure(api, "ops", "guard", "me"), metrics)
        put(api, protector(), pod("x"))
        tasks = [asyncio.ensure_future(i.run()) for i in cache.informers]
        tasks.append(asyncio.ensure_future(role.run()))
        async with asyncio.timeout(5):
            while "status" not in stored(api):
                await asyncio.sleep(0.001)
        assert (cache.why_not("lab"), cache.why_not("shop")) == ("podprotectors in lab: not listed yet", "")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(test())


def test_who_leads_again_does_not_know_how_long_pods_have_been_ready() -> None:
    """It saw the pod become Ready when it led before; nobody saw it fail and become Ready again since."""

    async def led(world: World, until: Callable[[], bool]) -> None:
        tasks = [asyncio.ensure_future(i.run()) for i in world.cache.informers]
        tasks.append(asyncio.ensure_future(world.role.run()))
        async with asyncio.timeout(5):
            while not until():
                await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def test(world: World) -> None:
        put(world.api, protector(minReadySeconds=60), pod("x", ready=False))
        await led(world, lambda: "status" in stored(world.api))
        world.role._became_ready.changed(None, counted_pod(pod("x", ready=False, namespace="shop")))
        world.role._became_ready.changed(
            counted_pod(pod("x", ready=False, namespace="shop")), counted_pod(pod("x", namespace="shop"))
        )
        world.now = 9000.0
        again = pod("x")
        again["status"]["conditions"][1]["lastTransitionTime"] = "1970-01-01T02:29:50Z"  # ten seconds ago
        put(world.api, again)
        await led(world, lambda: stored(world.api)["status"]["cells"][0]["aggregation"]["readyReplicas"] == 1)
        assert world.counts() == (1, 0)

    run(test)


def test_a_selector_that_is_changed_and_changed_back_hides_no_pod_that_went() -> None:
    """Both before the pods are counted again: what went meanwhile is counted no more."""

    async def test(world: World) -> None:
        put(world.api, protector(), pod("x"), pod("y"))
        await world.see()
        await world.look()
        assert world.counts() == (2, 2)
        put(world.api, selecting(world.api, "other"))
        await world.see()
        gone(world.api, "x")
        await world.see()
        put(world.api, selecting(world.api, "web"))
        await world.see()
        await world.look()
        assert world.counts() == (1, 1)

    run(test)


@pytest.mark.parametrize("edited", [True, False], ids=["another selector", "created again"])
def test_pods_are_first_counted_as_the_api_has_them(edited: bool) -> None:
    """The cache lags, and still has a pod whose deletion no record tells of, as it was allowed before the PodProtector
    selected the pod, or by one that was deleted since. Nor is it counted later; one with other labels by now may be
    counted where it belongs.
    """

    async def test(world: World) -> None:
        other = {"app": "other"}
        put(world.api, protector(), *(pod(name, labels=other) for name in ("x", "y", "z")))
        await world.see()
        await world.look()
        assert world.counts() == (0, 0)
        made = selecting(world.api, "other")
        put(world.api, made if edited else {**made, "status": {}})
        gone(world.api, "x")
        put(world.api, pod("z"))
        await see(world.cache)
        await world.look()
        assert world.counts() == (1, 1)
        await see(world.cache)
        await world.look()
        assert world.counts()[0] < 3 and "uid-x" in world.role._left and "uid-z" not in world.role._left

    run(test)


def test_a_leader_that_was_stopped_before_it_wrote_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen a pod become Ready, and was stopped for as long as another one needs to lead, and as the pod needs to
    fail again. The other one has nothing new to write; it writes all the same, so that the late write is a conflict.
    """

    async def test(world: World) -> None:
        put(world.api, protector(), pod("x"), pod("y", ready=False))
        await world.see()
        await world.look()
        await world.see()
        put(world.api, pod("y"))
        await world.see_pods()
        plain = world.api.replace

        async def late(*of: Any, **options: Any) -> Any:
            monkeypatch.undo()
            put(world.api, pod("y", ready=False))
            other = World(api=world.api)
            await other.see()
            await other.look()
            world.leadership.is_sure = False
            return await plain(*of, **options)

        monkeypatch.setattr(world.api, "replace", late)
        await world.look()
        assert world.counts() == (2, 1)

    run(test)


def test_only_pods_that_are_followed_are_counted_first() -> None:
    """Of others, nothing would tell later that they go. A selector that is too long for an address is left out of it,
    and decides all the same.
    """

    async def whole() -> None:
        world, values = World("cell=a"), [f"{'x' * 60}{number}" for number in range(10, 40)]
        unmet = [{"key": f"label-{number}", "operator": "NotIn", "values": values} for number in range(10)]
        long = {"matchLabels": {"app": "web"}, "matchExpressions": unmet}
        put(world.api, protector(selector=long), pod("x"))
        put(world.api, *(pod(name, labels={"app": app, "cell": "a"}) for name, app in (("y", "web"), ("z", "other"))))
        await world.see()
        await world.look()
        assert world.counts() == (1, 1)

    asyncio.run(whole())


def test_a_pod_that_goes_before_the_watch_knows_its_selector_is_counted_no_more() -> None:
    """The new selector was read because of a conflict, and pods counted by it: one of them goes, and only then the
    watch brings the selector.
    """

    async def test(world: World) -> None:
        other = {"app": "other"}
        put(world.api, protector(), pod("x", labels=other), pod("y", labels=other))
        await world.see()
        put(world.api, selecting(world.api, "other"))
        await world.look()
        assert world.counts() == (2, 2)
        gone(world.api, "x")
        await world.see_pods()
        await world.see()
        await world.look()
        assert world.counts() == (1, 1)

    run(test)


def test_a_pod_that_goes_while_its_protector_is_replaced_is_counted_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch brings that the protector was deleted, then that a pod was, and only then that the protector was
    created again, which a look at it that had begun before has already read.
    """

    async def test(world: World) -> None:
        put(world.api, protector(), pod("x"), pod("y"))
        await world.see()
        plain = world.api.get

        async def get(*of: Any, **options: Any) -> Any:
            del world.api.objects[POD_PROTECTORS.path("shop", "web")]
            await see(world.cache)
            put(world.api, protector())
            return await plain(*of, **options)

        monkeypatch.setattr(world.api, "get", get)
        world.api.next_answer("replace", Conflict("modified", 409))
        await world.look()
        assert world.counts() == (2, 2)
        gone(world.api, "x")
        await world.see_pods()
        await world.see()
        await world.look()
        assert world.counts() == (1, 1)

    run(test)


def test_a_pod_that_leaves_the_selector_keeps_its_place_for_the_minute() -> None:
    """Its labels change between its admission and its deletion, and may change back: it counts no more, and its place
    stays, as it would be one too many when it counts again.
    """

    async def test(world: World) -> None:
        put(world.api, protector(1, cells={"a": counted(2, bucket("uid-x", "r", name="x"))}), pod("x"), pod("y"))
        await world.see()
        put(world.api, pod("x", labels={"app": "other"}))
        for seconds in (0, 59):
            world.now += seconds
            await world.see()
            await world.look()
            assert world.counts() == (1, 1) and uids(world.api, "a") == ["uid-x"]
        put(world.api, pod("x"))
        await world.see()
        await world.look()
        assert world.counts() == (2, 2) and uids(world.api, "a") == ["uid-x"]

    run(test)


def test_a_pod_that_leaves_what_is_watched_keeps_its_place_for_the_minute() -> None:
    """A watch of some labels tells of a pod that loses them as of one that is deleted: the API is asked which it is."""

    async def whole() -> None:
        world = World("watched=yes")
        watched = {"app": "web", "watched": "yes"}
        cells = {"a": counted(3, bucket("uid-x", "r", name="x"), bucket("uid-z", "s", name="z"))}
        put(world.api, protector(1, cells=cells), *(pod(name, labels=watched) for name in "xyz"))
        await world.see()
        gone(world.api, "z")
        for labels in ({"app": "web"}, watched):
            put(world.api, pod("x", labels=labels))
            await world.see()
            await world.look()
            assert world.counts() == (2, 2) and uids(world.api, "a") == ["uid-x"]

    asyncio.run(whole())


NUMBER_AS_TEXT = {"cellID": "b", "aggregation": {"availableReplicas": "9", "totalReplicas": 9}}


@pytest.mark.parametrize(
    "cells",
    [[{"cellID": "c", **counted(2)}, NUMBER_AS_TEXT], [{"cellID": "c", **counted(2)}, {"cellID": ["b"]}, "b"]],
    ids=["number", "name"],
)
def test_a_status_that_cannot_be_read_is_written_anew(cells: list[Any]) -> None:
    """It is guard's own, and refuses all deletions of its pods until somebody corrects it. First, a minute has to
    pass, in which none is allowed: what was recorded there has happened by then, or never will. Its other cells and
    conditions stay.
    """

    async def test(world: World) -> None:
        broken = {"cells": cells, "conditions": [{"type": "Protects", "status": "True"}]}
        put(world.api, {**protector(), "status": broken}, pod("x"))
        await world.see()
        assert world.cache.unreadable("shop", LABELS)
        await world.look()
        world.now += 59.0
        await world.look()
        assert stored(world.api)["status"] == broken
        put(world.api, stored(world.api))  # whatever else changes in it, it is still the same
        await see(world.cache)
        world.now += 1.0
        await world.look()
        await world.see()
        assert not world.cache.unreadable("shop", LABELS)
        await world.look()
        assert [each["cellID"] for each in stored(world.api)["status"]["cells"]] == ["a", "c"]
        assert world.counts() == (1, 1) and stored(world.api)["status"]["conditions"] == broken["conditions"]

    run(test)


def test_a_status_that_is_no_status_is_written_anew() -> None:
    """Neither an object, nor one with a list of cells."""

    async def test(world: World) -> None:
        for broken in ("none", {"cells": {"a": 1}}, {"cells": 3}):
            put(world.api, {**protector(), "status": broken}, pod("x"))
            await world.see()
            await world.look()
            world.now += 60.0
            await world.look()
            await world.see()
            await world.look()
            assert world.counts() == (1, 1)

    run(test)


def test_a_status_that_is_nested_without_an_end_is_left_to_its_owner() -> None:
    """It ends no cache, which knows all others too."""

    async def test(world: World) -> None:
        nested: list[Any] = []
        for _ in range(100_000):
            nested = [nested]
        found = world.cache._kept({**protector(), "status": {"cells": [nested]}})
        assert isinstance(found, Unreadable) and not found.status

    run(test)


def test_a_spec_that_cannot_be_read_is_left_to_its_owner() -> None:
    """The spec is the user's; so is what has been corrected meanwhile, or what this replica may not lead for."""

    async def test(world: World) -> None:
        right, wrong = protector(cells={"b": counted(2)}), protector(cells={"b": NUMBER_AS_TEXT})
        for broken in (protector(cells={"b": NUMBER_AS_TEXT}, minAvailable="1"), wrong):
            put(world.api, broken)
            await world.see()
            await world.look()
            world.now += 100.0
            if broken["spec"] == right["spec"]:
                put(world.api, right)
            await world.look()
            assert world.done("replace") == []
        await see(world.cache)
        put(world.api, broken)
        await world.see()
        await world.look()
        world.now += 59.0
        await world.look()
        assert world.done("get") == [], "it was right meanwhile: the minute begins again"
        world.now += 1.0
        world.leadership.is_sure = False
        await world.look()
        assert world.done("replace") == []

    run(test)


def test_a_status_that_another_version_reads_and_writes_is_left_to_it() -> None:
    """While guard is upgraded or rolled back, the other version's webhooks allow deletions by a status that this one
    can't read: the minute begins with the last change, of which this one's cache may not know yet.
    """

    async def test(world: World) -> None:
        def other(available: str) -> None:
            cell = {"cellID": "b", "aggregation": {"availableReplicas": available, "totalReplicas": 9}}
            put(world.api, protector(cells={"b": cell}))

        other("9")
        await world.see()
        await world.look()
        world.now += 59.0
        other("8")
        await see(world.cache)
        await world.look()
        world.now += 59.0
        await world.look()
        world.now += 1.0
        other("7")
        await world.look()
        assert world.done("replace") == []
        await see(world.cache)
        await world.look()
        world.now += 60.0
        await world.look()
        assert world.done("replace") == ["web"] and stored(world.api)["status"]["cells"] == []

    run(test)
