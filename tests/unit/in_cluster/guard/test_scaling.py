"""Sets that follow a leader or a reference, as the role does it: what it asks, writes, and never does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.downscale_world import GROUP, LEASE, World, pod, stateful_set
from upgrader.in_cluster.guard.core.group_lease import LAST, GroupLease, Lock, Open, Preparing, Record, manifest, unseen
from upgrader.in_cluster.guard.core.rollout import Hold
from upgrader.in_cluster.guard.core.workloads import pod as read_pod
from upgrader.in_cluster.guard.core.workloads import stateful_set as read_set
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotNow
from upgrader.in_cluster.guard.roles.downscale_history import DownscaleHistory
from upgrader.in_cluster.guard.roles.run_lease import LEASES
from upgrader.in_cluster.guard.roles.scaling import Scaling
from upgrader.in_cluster.guard.roles.workload_cache import STATEFUL_SETS
from upgrader.in_cluster.guard.runtime.resource import Resource

TEMPLATES = Resource("rollout-operator.grafana.com/v1", "replicatemplates")
MIRROR = {
    f"grafana.com/rollout-mirror-replicas-from-resource-{part}": value
    for part, value in (("name", "db"), ("kind", "ReplicaTemplate"), ("api-version", TEMPLATES.api_version))
}
DELAYED = {
    "grafana.com/rollout-delayed-downscale": "1h",
    "grafana.com/rollout-prepare-delayed-downscale-url": "http://pod:80/delayed",
}
LEADER = {"grafana.com/rollout-downscale-leader": "a"}
UNPREPARED = {"grafana.com/prepare-downscale": "false"}


class Following(World):
    """Zone b follows a, or both follow a reference."""

    def __init__(self) -> None:
        super().__init__()
        self.scaling = Scaling(
            self.api,
            self.locks(),
            self.calls,
            "cluster.local.",
            DownscaleHistory(self.api),
            clock=lambda: self.time,
        )
        self.run: Hold | None = None

    def zone(self, name: str, replicas: int, notes: dict[str, str], **labels: str) -> None:
        """A set with these annotations, and all its pods."""
        found = stateful_set(name, replicas, labels={**UNPREPARED, **labels})
        found["metadata"]["annotations"] |= notes
        self.put(found, *(pod(name, number) for number in range(replicas)))

    def reference(self, replicas: int, shown: int | None = None) -> None:
        """A ReplicaTemplate, with its kind."""
        kinds = {"resources": [{"name": "replicatemplates/scale", "kind": "Scale"}]}
        kinds["resources"].append({"name": "replicatemplates", "kind": "ReplicaTemplate"})
        self.api.objects["/apis/rollout-operator.grafana.com/v1"] = kinds
        self.api.put(TEMPLATES, {"metadata": {"name": "db"}}, "shop")
        scale = {"spec": {"replicas": replicas}, "status": {"replicas": replicas if shown is None else shown}}
        self.api.objects[TEMPLATES.path("shop", "db", "scale")] = {"metadata": {"name": "db"}, **scale}

    def replicas(self, name: str) -> int:
        """What a set's spec wants."""
        return int(self.api.objects[STATEFUL_SETS.path("shop", name)]["spec"]["replicas"])

    def status(self) -> Any:
        """What the reference shows."""
        return self.api.objects[TEMPLATES.path("shop", "db")].get("status")

    def events(self) -> list[str]:
        """The messages of warnings."""
        found = [item for path, item in self.api.objects.items() if "/events/" in path]
        return [item["message"] for item in found if item["type"] == "Warning"]

    async def look(self, *, after: float = 0.0, **stale: int) -> bool:
        """Once; `stale`: what a cache still says of a set's replicas."""
        self.time += after

        async def hold() -> Hold | None:
            return self.run

        sets, pods = (
            [item for path, item in self.api.objects.items() if f"/{plural}/" in path and "kind" not in item]
            for plural in ("statefulsets", "pods")
        )
        known = [
            {**s, "spec": {**s["spec"], "replicas": stale.get(s["metadata"]["name"], s["spec"]["replicas"])}}
            for s in sets
        ]
        done = await self.scaling.look(GROUP, list(map(read_set, known)), list(map(read_pod, pods)), hold)
        for _ in range(5):
            await asyncio.sleep(0)
        return done


def run(test: Callable[[Following], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(Following())

    asyncio.run(whole())


def test_a_follower_gets_as_many_as_its_leader() -> None:
    """More at once. Fewer are noted on the group's Lease before, unless the webhook does that."""

    async def test(world: Following) -> None:
        world.zone("a", 5, {})
        world.zone("b", 3, LEADER)
        assert await world.look() and world.replicas("b") == 5
        assert LEASE not in world.api.objects and not await world.look()
        world.zone("a", 2, {})
        assert await world.look() and world.replicas("b") == 2
        assert world.lease().sets["b"].unseen == Open(1000.0, 5, 2, 1)
        writes = [call for call in world.writes() if "events" not in call]
        assert writes[-2:] == [f"create {LEASE}", f"patch {STATEFUL_SETS.path('shop', 'b', 'scale')}"]

    run(test)


def test_a_prepared_follower_is_scaled_by_the_webhook() -> None:
    """Which writes the Lease itself; what it refuses is an Event, and the group is rolled all the same."""

    async def test(world: Following) -> None:
        world.zone("a", 2, {})
        world.zone("b", 3, LEADER, **{"grafana.com/prepare-downscale": "true"})
        world.api.next_answer("patch", ApiRefused("a has 1 pods that aren't ready", 403))
        assert not await world.look() and world.events() == ["a has 1 pods that aren't ready"]
        assert await world.look() and world.replicas("b") == 2 and LEASE not in world.api.objects

    run(test)


def test_the_minimum_time_is_waited_for() -> None:
    """Since another zone's last downscale, which the group's Lease tells."""

    async def test(world: Following) -> None:
        world.zone("a", 2, {})
        world.zone("b", 3, LEADER, **{"grafana.com/min-time-between-zones-downscale": "1h"})
        world.api.put(
            LEASES, manifest("ops", GROUP, None, GroupLease(None, {"a": Record("uid-a", 1000.0)}), 0.0), "ops"
        )
        assert not await world.look(after=3600)
        assert await world.look(after=1) and world.replicas("b") == 2

    run(test)


def test_a_downscale_that_rollout_operator_has_noted_is_waited_for() -> None:
    """Before guard came, on the leader's set."""

    async def test(world: Following) -> None:
        world.zone("a", 2, {LAST: "1970-01-01T00:16:40Z"})
        world.zone("b", 3, LEADER, **{"grafana.com/min-time-between-zones-downscale": "1h"})
        assert not await world.look(after=3600)
        assert await world.look(after=1) and world.replicas("b") == 2

    run(test)


def test_fewer_are_decided_by_the_api() -> None:
    """A cache that still knows fewer of the leader takes nothing from its follower."""

    async def test(world: Following) -> None:
        world.zone("a", 3, {})
        world.zone("b", 3, LEADER)
        assert not await world.look(a=1) and world.replicas("b") == 3 and world.writes() == []

    run(test)


@pytest.mark.parametrize(
    "lease",
    [GroupLease(Lock("x", "a rollout")), GroupLease(None, {"a": Record("uid-a", unseen=Open(999.0, 2, 1, 1))})],
)
def test_a_locked_group_is_not_scaled_down(lease: GroupLease) -> None:
    """Nor one in which another downscale isn't seen yet."""

    async def test(world: Following) -> None:
        world.zone("a", 2, {})
        world.zone("b", 3, {**LEADER, "grafana.com/min-time-between-zones-downscale": "0"})
        world.time = 2000.0
        world.api.put(LEASES, manifest("ops", GROUP, None, lease, 0.0), "ops")
        assert not await world.look() and world.replicas("b") == 3
        (told,) = world.events()
        assert told.startswith("b is not scaled, because its group is locked: ")

    run(test)


def test_a_run_keeps_sets_from_getting_fewer() -> None:
    """By its name; more is fine."""

    async def test(world: Following) -> None:
        world.run = Hold("run-7", frozenset({"shop/db"}))
        world.zone("a", 2, {})
        world.zone("b", 3, LEADER)
        assert not await world.look() and world.events() == ["the upgrade run-7 holds the group db"]
        world.zone("a", 4, {})
        assert await world.look() and world.replicas("b") == 4

    run(test)


@pytest.mark.parametrize(
    ("error", "noted"),
    [
        (ApiRefused("denied the request: grafana.com/no-downscale=true", 403), False),
        (NotNow("denied the request: not now"), False),
        (ApiAway("no answer in time"), True),
    ],
)
@pytest.mark.parametrize("before", [None, Record("uid-b", last=500.0, ever_ran=3)])
def test_a_downscale_that_is_refused_is_not_noted(error: Exception, noted: bool, before: Record | None) -> None:
    """The follower is scaled again every few seconds: a note that begins anew each time would keep all other sets of
    the group from being rolled out, and from getting fewer, for as long as a webhook refuses. Where no answer came, the
    set may have fewer by now.
    """

    async def test(world: Following) -> None:
        world.zone("a", 2, {})
        world.zone("b", 3, LEADER)
        if before:
            world.api.put(LEASES, manifest("ops", GROUP, None, GroupLease(None, {"b": before}), 0.0), "ops")
        world.api.next_answer("patch", error)
        assert not await world.look() and world.replicas("b") == 3
        assert unseen(world.lease(), [read_set(stateful_set("b"))], ()).keys() == ({"b"} if noted else set())
        assert noted or world.lease().sets == ({"b": before} if before else {})
        assert await world.look() and world.replicas("b") == 2 and world.lease().sets["b"].unseen is not None

    run(test)


@pytest.mark.parametrize("error", [None, ApiRefused("denied", 403)])
def test_whom_a_killed_process_has_prepared_is_not_forgotten(error: Exception | None) -> None:
    """Its lock has expired; its pods are still to be told that they stay, whether or not another set is scaled now."""

    async def test(world: Following) -> None:
        world.zone("a", 2, {})
        world.zone("b", 3, LEADER)
        begun = Preparing("a", 2, 1)
        world.api.put(LEASES, manifest("ops", GROUP, None, GroupLease(Lock("x", "it", begun)), 0.0), "ops")
        assert not await world.look() and world.replicas("b") == 3
        world.api.next_answer("patch", error)
        assert await world.look(after=40) is (error is None)
        assert world.lease().stay == (begun,) and world.lease().lock is None

    run(test)


def test_a_note_that_others_have_overtaken_is_left_to_them() -> None:
    """Another process has written the Lease since: the note stays until it is old, or the set has fewer."""

    async def test(world: Following) -> None:
        world.zone("a", 2, {})
        world.zone("b", 3, LEADER)
        world.api.next_answer("patch", ApiRefused("denied", 403))
        world.api.next_answer("replace", Conflict("modified", 409))
        assert not await world.look() and world.lease().sets["b"].unseen is not None
        assert any("denied" in each for each in world.events())

    run(test)


def test_a_leader_that_is_missing_is_an_event() -> None:
    """And nothing is scaled."""

    async def test(world: Following) -> None:
        world.zone("b", 3, {"grafana.com/rollout-downscale-leader": "c"})
        assert not await world.look() and world.events() == ["the leader 'c' of b is not in its group"]

    run(test)


@pytest.mark.parametrize("error", [ApiAway("away"), ApiRefused("statefulsets/scale is forbidden", 403)])
def test_what_cannot_be_done_keeps_no_group_from_rolling(error: Exception) -> None:
    """It is tried again the next time."""

    async def test(world: Following) -> None:
        world.zone("a", 4, {})
        world.zone("b", 3, LEADER)
        world.api.next_answer("patch", error)
        assert not await world.look()
        assert await world.look() and world.replicas("b") == 4

    run(test)


def test_sets_follow_a_reference_and_it_shows_what_they_have() -> None:
    """One set at a time; its status is written where it differs, and not where that is switched off."""

    async def test(world: Following) -> None:
        for name in ("a", "b"):
            world.zone(name, 3, MIRROR)
        world.reference(4, shown=3)
        assert await world.look() and (world.replicas("a"), world.replicas("b")) == (4, 3)
        assert world.status() == {"replicas": 4}
        assert await world.look() and world.replicas("b") == 4
        world.reference(4, shown=4)
        writes = len(world.writes())
        assert not await world.look() and len(world.writes()) == writes
        off = {**MIRROR, "grafana.com/rollout-mirror-replicas-from-resource-write-back": "false"}
        for name in ("a", "b"):
            world.zone(name, 4, off)
        world.reference(4, shown=1)
        assert not await world.look() and len(world.writes()) == writes

    run(test)


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        ({"name": "other"}, "it doesn't exist, or has no scale"),
        ({"kind": "Unknown"}, "the API has no kind Unknown in version 'rollout-operator.grafana.com/v1'"),
        ({"api-version": ""}, "the API has no kind ReplicaTemplate in version ''"),
    ],
)
def test_a_reference_that_cannot_be_read_is_an_event(annotation: dict[str, str], why: str) -> None:
    """With why; nothing is scaled."""

    async def test(world: Following) -> None:
        wrong = {f"grafana.com/rollout-mirror-replicas-from-resource-{part}": text for part, text in annotation.items()}
        world.zone("a", 3, {**MIRROR, **wrong})
        world.reference(4)
        assert not await world.look() and world.replicas("a") == 3
        (told,) = world.events()
        assert told.endswith(f"which can't be read: {why}")

    run(test)


def prepared_since(world: Following, **since: int) -> None:
    """What the pods of zone a answer: since when they are prepared."""
    for name, at in since.items():
        ip = f"ip-{name.replace('_', '-')}"
        world.calls.answers[ip] = (200, json.dumps({"timestamp": at}).encode(), "")


def test_a_delayed_downscale_takes_the_last_pods_over_the_delay() -> None:
    """Those that go are asked, those that stay are told so; the reference shows what the set has."""

    async def test(world: Following) -> None:
        world.zone("a", 4, {**MIRROR, **DELAYED})
        world.reference(1, shown=3)
        world.time = 10_000.0
        prepared_since(world, a_1=9_999, a_2=6_400, a_3=6_300)
        assert await world.look() and world.replicas("a") == 2
        assert sorted(world.calls.sent) == ["DELETE ip-a-0", "POST ip-a-1", "POST ip-a-2", "POST ip-a-3"]
        assert world.status() == {"replicas": 2}

    run(test)


@pytest.mark.parametrize("answer", [(500, b"", ""), (200, b"x", ""), (200, b"{}", ""), (0, b"", "refused")])
def test_one_pod_that_cannot_be_prepared_holds_up_all(answer: tuple[int, bytes, str]) -> None:
    """Not 2xx, no JSON, no timestamp, no answer: an Event by its name."""

    async def test(world: Following) -> None:
        world.zone("a", 3, {**MIRROR, **DELAYED})
        world.reference(1, shown=1)
        world.time = 10_000.0
        prepared_since(world, a_2=1)
        world.calls.answers["ip-a-1"] = answer
        assert not await world.look() and world.replicas("a") == 3
        assert world.events()[0].startswith("a-1 can't be prepared: ")
        assert world.status() == {"replicas": 3}, "the reference shows what there is"

    run(test)


@pytest.mark.parametrize("wanted", [3, 5])
def test_pods_that_stay_are_told_so_though_they_answer_409(wanted: int) -> None:
    """With no change, and before a scale-up, which doesn't wait for them; regularly, and not all the time."""

    async def test(world: Following) -> None:
        world.zone("a", 3, {**MIRROR, **DELAYED})
        world.reference(wanted)
        for number in range(3):
            world.calls.answers[f"ip-a-{number}"] = (409, b"", "")
        assert await world.look() is (wanted == 5) and world.replicas("a") == wanted
        stay = [f"DELETE ip-a-{number}" for number in range(3)]
        assert sorted(world.calls.sent) == stay
        world.calls.sent.clear()
        await world.look(after=1)
        assert world.calls.sent == []
        await world.look(after=4)
        assert set(stay) <= set(world.calls.sent)

    run(test)


def test_a_group_that_follows_nobody_costs_nothing() -> None:
    """The API isn't asked."""

    async def test(world: Following) -> None:
        assert not await world.look() and world.api.calls == []

    run(test)
