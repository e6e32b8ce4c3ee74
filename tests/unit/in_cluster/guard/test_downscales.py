"""What becomes of downscales that were allowed, and of those whose webhook was killed: by the replica that leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.downscale_world import GROUP, LEASE, World, pod, request, stateful_set, why
from upgrader.in_cluster.guard.core.group_lease import (
    LAST,
    OPEN_SECONDS,
    VALID_SECONDS,
    GroupLease,
    Lock,
    Preparing,
    Record,
    manifest,
)
from upgrader.in_cluster.guard.core.workloads import pod as read_pod
from upgrader.in_cluster.guard.core.workloads import stateful_set as read_set
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.roles.downscales import Downscales
from upgrader.in_cluster.guard.roles.group_locks import leases_of_groups
from upgrader.in_cluster.guard.roles.run_lease import LEASES
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS


class Leading(World):
    """A leader beside webhooks."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = leases_of_groups(self.api, "ops")
        self.downscales = Downscales(self.api, self.locks(), self.leases, self.calls, "cluster.local.")

    def found(self, plural: str) -> list[Any]:
        """All of a kind."""
        return [item for path, item in self.api.objects.items() if f"/{plural}/" in path]

    async def look(self, *, after: float = 0.0) -> None:
        """Once, with caches that know everything."""
        self.time += after
        await self.leases._list()
        sets, pods = self.found("statefulsets"), self.found("pods")
        await self.downscales.look(GROUP, list(map(read_set, sets)), list(map(read_pod, pods)))

    def shown(self, name: str) -> str:
        """The annotation."""
        return str(self.api.objects[STATEFUL_SETS.path("shop", name)]["metadata"]["annotations"].get(LAST))


def run(test: Callable[[Leading], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(Leading())

    asyncio.run(whole())


def test_what_is_seen_is_shown_afterwards() -> None:
    """On the set, by the time at which it was allowed; and only once it has been done (#303)."""

    async def test(world: Leading) -> None:
        assert (await world.webhook()(request("a"))).allowed
        await world.look(after=5)
        assert world.shown("a") == "None"
        world.shrink("a", 1)
        await world.look()
        assert world.shown("a") == "1970-01-01T00:16:40Z" and world.shown("b") == "None"
        assert world.lease().sets["a"] == Record("uid-a", last=1000.0, ever_ran=1)
        writes = len(world.writes())
        await world.look()
        assert len(world.writes()) == writes, "nothing more is written"

    run(test)


def test_what_never_came_is_forgotten_and_its_pods_stay() -> None:
    """After a while; not those that run no more."""

    async def test(world: Leading) -> None:
        assert (await world.webhook()(request("a"))).allowed
        world.remove(PODS, "a-2")
        world.calls.sent.clear()
        await world.look()
        await world.look(after=OPEN_SECONDS - 1)
        assert world.calls.sent == []
        await world.look(after=1)
        assert sorted(world.calls.sent) == ["DELETE ", "DELETE ip-a-1"]
        assert world.lease().last_downscales == {} and world.lease().lock is None
        await world.look(after=OPEN_SECONDS)
        assert len(world.calls.sent) == 2 and world.shown("a") == "None"

    run(test)


def test_a_prepared_pod_is_told_that_it_stays_when_replicas_grow_back() -> None:
    """3 → 2 was allowed and seen, and the pod was still there when somebody wanted 3 again: nobody else would tell it,
    ever. Until it knows, no other zone shrinks; and again, until it answers.
    """

    async def test(world: Leading) -> None:
        assert (await world.webhook()(request("a", 3, 2))).allowed
        world.put(stateful_set("a", 2, generation=2))
        await world.look()
        assert world.lease().sets["a"].prepared == {"a-2": "uid-a-2"}
        world.put(stateful_set("a", 3, generation=3))
        assert "a-2 was prepared for shutdown, and is not removed after all" in why(await world.webhook()(request("b")))
        world.calls.sent.clear()
        world.calls.answers["ip-a-2"] = (500, b"", "")
        await world.look()
        await world.look(after=29)
        assert world.calls.sent == ["DELETE ip-a-2"], "not again at once"
        assert "a-2" in why(await world.webhook()(request("b")))
        world.calls.answers.clear()
        await world.look(after=1)
        assert world.calls.sent == ["DELETE ip-a-2"] * 2
        assert world.lease().sets["a"].prepared == {} and world.lease().lock is None
        assert (await world.webhook()(request("b"))).allowed

    run(test)


def test_a_set_that_is_created_again_tells_its_prepared_pods_and_keeps_its_last_downscale() -> None:
    """`kubectl delete --cascade=orphan`, and applied again as it was before a downscale. A cache that still has the one
    before changes nothing that was noted of the new one.
    """

    async def test(world: Leading) -> None:
        assert (await world.webhook()(request("a", 3, 2))).allowed
        world.put(stateful_set("a", 2, generation=2))
        await world.look()
        before = list(map(read_set, world.found("statefulsets")))
        world.put(stateful_set("a", uid="again"), *(pod("a", number, owner="again") for number in range(3)))
        assert "a-2 was prepared for shutdown, and is not removed after all" in why(await world.webhook()(request("b")))
        world.calls.sent.clear()
        await world.look()
        assert world.calls.sent == ["DELETE ip-a-2"]
        assert world.lease().sets["a"] == Record("again", last=1000.0, ever_ran=3)
        assert world.shown("a") == "1970-01-01T00:16:40Z"
        assert (await world.webhook()(request("a", 3, 2))).allowed
        await world.leases._list()
        await world.downscales.look(GROUP, before, list(map(read_pod, world.found("pods"))))
        assert world.lease().sets["a"].unseen is not None

    run(test)


def test_a_prepared_pod_that_is_gone_is_forgotten_by_the_word_of_the_api() -> None:
    """Not by that of a cache, which may not know a pod yet that was told a moment ago."""

    async def test(world: Leading) -> None:
        assert (await world.webhook()(request("a", 3, 2))).allowed
        world.put(stateful_set("a", 2, generation=2))
        await world.leases._list()
        sets = list(map(read_set, world.found("statefulsets")))
        await world.downscales.look(GROUP, sets, [])
        assert world.lease().sets["a"].prepared == {"a-2": "uid-a-2"}
        world.remove(PODS, "a-2")
        await world.look()
        assert world.lease().sets["a"].prepared == {}
        assert world.calls.sent == ["POST ip-a-2"]

    run(test)


def test_pods_that_cannot_be_told_where_nobody_knows_how_are_kept_in_mind() -> None:
    """Somebody has taken the annotation away in the meantime."""

    async def test(world: Leading) -> None:
        assert (await world.webhook()(request("a", 3, 2))).allowed
        world.put(stateful_set("a", 2, generation=2))
        await world.look()
        grown = stateful_set("a", 3, generation=3)
        del grown["metadata"]["annotations"]["grafana.com/prepare-downscale-http-port"]
        world.put(grown)
        await world.look()
        assert world.lease().sets["a"].prepared == {"a-2": "uid-a-2"}
        world.put(stateful_set("a", 3, generation=4))
        await world.look(after=30)
        assert world.calls.sent == ["POST ip-a-2", "DELETE ip-a-2"] and world.lease().sets["a"].prepared == {}

    run(test)


def test_pods_that_a_killed_webhook_was_about_to_prepare_stay() -> None:
    """Once its lock is given up; who is killed while it tells them leaves it to the next one."""

    async def test(world: Leading) -> None:
        lease = GroupLease(Lock("killed", "a downscale", Preparing("a", 3, 1)))
        world.api.put(LEASES, manifest("ops", GROUP, None, lease, 0.0), "ops")
        await world.look()
        await world.look(after=VALID_SECONDS - 1)
        assert world.calls.sent == []

        class Killed(BaseException):
            pass

        async def killed() -> None:
            raise Killed

        world.calls.before = killed
        world.downscales._locks.release = lambda held: asyncio.sleep(0)  # type: ignore[method-assign]
        with pytest.raises(Killed):
            await world.look(after=1)
        assert world.lease().stay == (Preparing("a", 3, 1),)
        world.calls.before, world.calls.sent = None, []
        world.downscales = Downscales(world.api, world.locks(), world.leases, world.calls, "cluster.local.")
        await world.look()
        await world.look(after=VALID_SECONDS)
        assert sorted(world.calls.sent) == ["DELETE ip-a-1", "DELETE ip-a-2"]
        assert world.lease().stay == () and world.lease().lock is None

    run(test)


def test_a_lock_that_somebody_has_is_left_alone() -> None:
    """A write would take it from whoever asks pods at this moment."""

    async def test(world: Leading) -> None:
        looked = []

        async def looks() -> None:
            looked.append(len(world.writes()))
            world.calls.before = None
            await world.look()
            looked.append(len(world.writes()))

        world.calls.before = looks
        assert (await world.webhook()(request("a"))).allowed
        assert looked[0] == looked[1]

    run(test)


def test_ordinals_that_run_are_noted_for_sets_that_are_prepared() -> None:
    """All of one that is met for the first time; so a scale-up that is taken back needs no preparation."""

    async def test(world: Leading) -> None:
        await world.look()
        world.put(stateful_set("a", 5, generation=2), pod("a", 3), pod("a", 4, phase="Pending"))
        await world.look()
        assert {name: record.ever_ran for name, record in world.lease().sets.items()} == {"a": 4, "b": 3}
        assert (await world.webhook()(request("a", 5, 3))).allowed
        assert world.calls.sent == ["POST ip-a-3"]

    run(test)


def test_groups_without_prepared_sets_get_no_lease_from_it() -> None:
    """Nothing is written for what isn't used."""

    async def test(world: Leading) -> None:
        for name in ("a", "b"):
            found = stateful_set(name)
            del found["metadata"]["labels"]["grafana.com/prepare-downscale"]
            world.put(found)
        await world.look()
        assert world.writes() == []

    run(test)


@pytest.mark.parametrize("error", [ApiAway("away"), ApiRefused("leases is forbidden", 403), Conflict("modified", 409)])
def test_it_keeps_no_group_from_being_rolled(error: Exception) -> None:
    """It is tried again the next time."""

    async def test(world: Leading) -> None:
        world.api.next_answer("create", error)
        await world.look()
        assert LEASE not in world.api.objects
        await world.look()
        assert world.lease().sets["a"].ever_ran == 3

    run(test)


def test_a_group_on_which_a_webhook_has_acted_is_looked_at() -> None:
    """At once; not for what the leader has written itself."""

    async def test(world: Leading) -> None:
        told: list[Any] = []
        world.downscales.tell(told.append)
        await world.look()
        await world.leases._list()
        told.clear()
        locks = world.locks()
        async with locks.locked(GROUP, "a rollout", holder="guard-rollout"):
            await world.leases._list()
        await world.leases._list()
        assert told == []
        assert (await world.webhook()(request("a"))).allowed
        await world.leases._list()
        assert told == [GROUP]

    run(test)
