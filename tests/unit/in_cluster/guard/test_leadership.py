"""The election by a Lease, with a clock that the tests hold: never two at once, and none no longer than needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.runtime.informer import Key
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.resource import Resource
from upgrader.in_cluster.guard.runtime.work_queue import WorkQueue

LEASES = Resource("coordination.k8s.io/v1", "leases")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = LEASES.path("ops", "guard")


class World:
    """An API server, a clock, and replicas."""

    def __init__(self) -> None:
        self.api, self.seconds = FakeApi(), 0.0
        self.leading: list[str] = []
        """Those whose work runs now."""
        self.most = 0
        self.cut: set[str] = set()
        """Replicas that don't reach the API server."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.elections: dict[str, Leadership] = {}

    def start(self, name: str) -> None:
        """A replica."""
        api = self.api

        class Its(FakeApi):
            def _check(inner, verb: str, what: str) -> None:  # noqa: N805 - `self` is the world's
                if name in self.cut:
                    raise ApiAway("no route to host")
                api._check(verb, what)

        its = Its()
        its.objects = api.objects
        election = Leadership(
            its,
            "ops",
            "guard",
            name,
            clock=lambda: self.seconds,
            sleep=self._sleep,
            now=lambda: NOW,
        )
        self.elections[name] = election

        async def work() -> None:
            self.leading.append(name)
            self.most = max(self.most, len(self.leading))
            try:
                await asyncio.Event().wait()
            finally:
                self.leading.remove(name)

        self._tasks[name] = asyncio.ensure_future(election.lead(work))

    async def end(self, name: str) -> None:
        """By a signal."""
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)

    def kill(self, name: str) -> None:
        """At once: nothing of it happens any more."""
        self.cut.add(name)

    async def pass_(self, seconds: float) -> None:
        """Time, half a second after the other, in which everybody does what is due."""
        for _ in range(int(seconds * 2)):
            self.seconds += 0.5
            for _ in range(40):
                await asyncio.sleep(0)

    async def stop(self) -> None:
        for name in list(self._tasks):
            await self.end(name)

    async def _sleep(self, seconds: float) -> None:
        until = self.seconds + seconds
        while self.seconds < until:
            await asyncio.sleep(0)


def run(test: Callable[[World], object]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        world = World()
        try:
            await test(world)  # type: ignore[misc]
        finally:
            await world.stop()

    asyncio.run(whole())


def test_one_of_two_leads() -> None:
    """The first one, as long as it renews."""

    async def test(world: World) -> None:
        world.start("a")
        await world.pass_(1)
        world.start("b")
        await world.pass_(60)
        assert world.leading == ["a"] and world.most == 1
        assert world.api.objects[PATH]["spec"]["leaseTransitions"] == 1
        assert world.elections["a"].sure() and not world.elections["b"].sure()

    run(test)


def test_who_ends_hands_over_at_once() -> None:
    """A replacement by a rollout doesn't cost 15 s."""

    async def test(world: World) -> None:
        world.start("a")
        await world.pass_(1)
        world.start("b")
        await world.end("a")
        await world.pass_(3)
        assert world.leading == ["b"]

    run(test)


def test_who_is_cut_off_stops_before_another_begins() -> None:
    """After 10 s it stops by itself; after 15 s at the earliest another one leads."""

    async def test(world: World) -> None:
        world.start("a")
        await world.pass_(1)
        world.start("b")
        await world.pass_(4)
        world.kill("a")
        await world.pass_(12.5)
        assert world.leading == [], "one has stopped, and the other one waits still"
        await world.pass_(8)
        assert world.leading == ["b"] and world.most == 1
        world.cut.clear()
        await world.pass_(30)
        assert world.leading == ["b"], "who is back waits like anybody else"

    run(test)


def test_a_lease_whose_time_is_anybodys_is_waited_for() -> None:
    """Clocks are not compared: one that seems to have ended years ago is valid for 15 s from now."""

    async def test(world: World) -> None:
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "1999-01-01T00:00:00.000000Z"}
        world.api.put(LEASES, {"metadata": {"name": "guard"}, "spec": spec}, "ops")
        world.start("a")
        await world.pass_(14)
        assert world.leading == []
        await world.pass_(5)
        assert world.leading == ["a"]

    run(test)


@pytest.mark.parametrize("error", [Conflict("modified", 409), ApiRefused("leases is forbidden", 403), ApiAway("away")])
def test_a_write_that_fails_once_is_tried_again(error: Exception) -> None:
    """Whatever it was; it leads on meanwhile."""

    async def test(world: World) -> None:
        world.start("a")
        await world.pass_(1)
        world.api.next_answer("replace", error)
        await world.pass_(10)
        assert world.leading == ["a"]

    run(test)


def test_work_that_fails_ends_all_of_it() -> None:
    """The process ends, so that it begins anew; the Lease is given back."""

    async def whole() -> None:
        api = FakeApi()
        election = Leadership(api, "ops", "guard", "a")

        async def work() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await election.lead(work)
        assert api.objects[PATH]["spec"]["holderIdentity"] == ""

    asyncio.run(whole())


def test_a_key_is_taken_once_when_it_is_due() -> None:
    """Added often it comes once, at the earliest of its times; what is added meanwhile wakes who waits."""

    async def whole() -> None:
        seconds = [0.0]
        queue = WorkQueue[Key](lambda: seconds[0])
        queue.add(("shop", "late"), 5)
        queue.add(("shop", "a"))
        queue.add(("shop", "a"), 3)
        queue.add(("shop", "late"), 9)
        assert await queue.take() == ("shop", "a")
        taking = asyncio.ensure_future(queue.take())
        await asyncio.sleep(0)
        queue.add(("shop", "b"))
        assert await taking == ("shop", "b")
        seconds[0] = 5.0
        assert await queue.take() == ("shop", "late")

    asyncio.run(whole())
