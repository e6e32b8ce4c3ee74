"""The lock of a group: who gets it, for how long, and what somebody may do who is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.core.group_lease import VALID_SECONDS, GroupLease
from upgrader.in_cluster.guard.guard_errors import ApiAway, Conflict, GroupLocked
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks
from upgrader.in_cluster.guard.roles.run_lease import LEASES

GROUP = ("shop", "db")


class World:
    """Two processes, and the time of both."""

    def __init__(self) -> None:
        self.api, self.time = FakeApi(), 1000.0
        self.one, self.other = (GroupLocks(self.api, "ops", clock=lambda: self.time) for _ in range(2))


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(World())

    asyncio.run(whole())


def test_two_that_have_read_the_same_do_not_both_get_it() -> None:
    """Neither of a Lease that isn't there yet, nor of one that is."""

    async def test(world: World) -> None:
        for _ in range(2):
            first, second = await world.one.look(GROUP), await world.other.look(GROUP)
            held = await world.one.take(first, "a downscale of a")
            with pytest.raises(Conflict):
                await world.other.take(second, "a downscale of b")
            with pytest.raises(GroupLocked, match="a downscale of a"):
                await world.other.take(await world.other.look(GROUP), "a downscale of b")
            await world.one.release(held)

    run(test)


def test_what_a_killed_process_has_locked_is_given_up_after_a_while() -> None:
    """Once it was seen unchanged for that long; whoever it was can't write any more."""

    async def test(world: World) -> None:
        killed = await world.one.take(await world.one.look(GROUP), "a downscale of a")
        for passed, locked in ((0.0, "a downscale of a"), (VALID_SECONDS - 1.0, "a downscale of a"), (1.0, "")):
            world.time += passed
            assert (await world.other.look(GROUP)).locked_by() == locked
        await world.other.take(await world.other.look(GROUP), "a downscale of b")
        with pytest.raises(Conflict):
            await world.one.write(killed, GroupLease())

    run(test)


def test_a_lock_that_is_taken_again_and_again_is_another_one() -> None:
    """Its holder is the same, and it isn't given up."""

    async def test(world: World) -> None:
        for _ in range(5):
            held = await world.one.take(await world.one.look(GROUP), "a rollout", holder="rollout")
            assert (await world.other.look(GROUP)).locked_by() == "a rollout"
            world.time += VALID_SECONDS - 1.0
            assert (await world.other.look(GROUP)).locked_by("rollout") == ""
        assert not world.one.sure(held)

    run(test)


def test_it_is_certain_only_as_long_as_nobody_can_take_it_over() -> None:
    """With a margin, from before it was written."""

    async def test(world: World) -> None:
        async with world.one.locked(GROUP, "a rollout", holder="rollout") as held:
            assert world.one.sure(held)
            world.time += VALID_SECONDS - 16
            assert world.one.sure(held)
            world.time += 1
            assert not world.one.sure(held)

    run(test)


def test_it_is_given_back_whatever_happens() -> None:
    """Where the API is away, others give it up by themselves."""

    async def test(world: World) -> None:
        with pytest.raises(ValueError):
            async with world.one.locked(GROUP, "a rollout", holder="rollout"):
                raise ValueError
        assert (await world.other.look(GROUP)).locked_by() == ""
        async with world.one.locked(GROUP, "a rollout", holder="rollout"):
            world.api.next_answer("replace", ApiAway("away"))
        assert (await world.other.look(GROUP)).locked_by() == "a rollout"

    run(test)


def test_a_group_whose_lease_others_write_all_the_time_is_locked() -> None:
    """It tries a few times."""

    async def test(world: World) -> None:
        world.api.next_answer("create", *(Conflict("exists", 409) for _ in range(5)))
        with pytest.raises(GroupLocked, match="keep changing"):
            async with world.one.locked(GROUP, "a rollout", holder="rollout"):
                raise AssertionError
        assert LEASES.path("ops", "guard-group.shop.db") not in world.api.objects

    run(test)
