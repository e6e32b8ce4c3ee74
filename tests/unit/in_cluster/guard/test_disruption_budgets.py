"""How often PodDisruptionBudgets are listed, and what an eviction is told that doesn't get to know them in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import member
from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.test_work_queue import steps
from upgrader.in_cluster.guard.core.workloads import Pod
from upgrader.in_cluster.guard.roles import disruption_budgets as module
from upgrader.in_cluster.guard.roles.disruption_budgets import DISRUPTION_BUDGETS, DisruptionBudgets

LONG = 300.0


class SlowApi(FakeApi):
    """Of a list, it knows the content when it is asked, and answers once the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = list[asyncio.Event]()

    async def page(self, *args: Any, **kwargs: Any) -> Any:
        found = await super().page(*args, **kwargs)
        self.asked.append(asyncio.Event())
        await self.asked[-1].wait()
        return found


class World:
    """A namespace with the budgets `web` and `db`, which allow so many evictions of pods with their label."""

    def __init__(self) -> None:
        self.api = SlowApi()
        self.budgets = DisruptionBudgets(self.api)
        for name in ("web", "db"):
            self.allow(name, 0)

    def allow(self, name: str, allowed: int) -> None:
        """From now on."""
        status = {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 2}
        spec = {"selector": {"matchLabels": {"app": name}}}
        self.api.put(DISRUPTION_BUDGETS, {"metadata": {"name": name}, "spec": spec, "status": status}, "ns")

    async def ask(self, name: str, seconds: float = LONG) -> asyncio.Task[str]:
        """What denies the eviction of a pod of this budget; by now it waits for the answer."""

        async def told() -> str:
            answer = await self.budgets.denial(pod(name), seconds)
            return answer.message if answer else ""

        task = asyncio.create_task(told())
        await steps()
        return task


def pod(name: str, **changes: Any) -> Pod:
    """One of a budget."""
    return member(f"{name}-0", labels={"app": name, "tier": "any"}, **changes)


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(World())

    asyncio.run(whole())


def test_evictions_that_come_during_a_list_share_the_next_one() -> None:
    """A drain evicts all pods of a node at once: two lists, and each eviction is told of its own budget."""

    async def test(world: World) -> None:
        asked = [await world.ask("web")] + [await world.ask(("web", "db")[number % 2]) for number in range(50)]
        assert len(world.api.asked) == 1
        world.api.asked[0].set()
        await steps()
        assert asked[0].done() and not asked[1].done() and len(world.api.asked) == 2
        world.api.asked[1].set()
        told = await asyncio.gather(*asked)
        assert ["ns/web" in each for each in told] == [True] + [number % 2 == 0 for number in range(50)]
        assert ["ns/db" in each for each in told] == [False] + [number % 2 == 1 for number in range(50)]
        assert len(world.api.asked) == 2 and not world.budgets._listing and not world.budgets._waiting

    run(test)


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0)])
def test_no_list_that_began_before_an_eviction_decides_about_it(before: int, after: int) -> None:
    """A budget that was applied, or that has become free, since then counts as it is."""

    async def test(world: World) -> None:
        world.allow("web", before)
        first = await world.ask("web")
        world.allow("web", after)
        second = await world.ask("web")
        world.api.asked[0].set()
        await steps()
        world.api.asked[1].set()
        assert bool(await first) is not bool(before) and bool(await second) is not bool(after)

    run(test)


def test_a_list_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is known then, and nothing is denied; those that come later get another list."""
    monkeypatch.setattr(module, "_LIST_SECONDS", 0.0)

    async def test(world: World) -> None:
        assert await (await world.ask("web")) == ""
        monkeypatch.setattr(module, "_LIST_SECONDS", LONG)
        later = await world.ask("web")
        world.api.asked[-1].set()
        assert "PodDisruptionBudget ns/web" in await later

    run(test)
    assert [vars(each)["reason"] for each in caplog.records] == ["no answer in time"]


def test_an_eviction_whose_time_is_over_leaves_the_list_to_the_others() -> None:
    """It is told that nothing is known; the list is the others' too, and goes on."""

    async def test(world: World) -> None:
        first, second = await world.ask("web", 0.0), await world.ask("web")
        assert await first == "" and len(world.api.asked) == 1
        world.api.asked[0].set()
        await steps()
        world.api.asked[-1].set()
        assert "PodDisruptionBudget ns/web" in await second

    run(test)


def test_an_error_that_surprises_reaches_those_that_wait() -> None:
    """They don't wait until their time is over, and the next ones are asked for as before."""

    async def test(world: World) -> None:
        world.api.next_answer("page", RuntimeError("surprise"))
        with pytest.raises(RuntimeError, match="surprise"):
            await (await world.ask("web"))
        later = await world.ask("web")
        world.api.asked[-1].set()
        assert await later != ""

    run(test)


def test_nothing_is_listed_for_a_pod_that_no_budget_limits() -> None:
    """It is Pending, terminates or has ended: the API server asks no budget either."""

    async def test(world: World) -> None:
        for changes in ({"phase": "Pending"}, {"phase": "Failed"}, {"terminating": True}):
            assert await world.budgets.denial(pod("web", **changes), LONG) is None
        assert world.api.calls == []

    run(test)
