"""Reservations as they are written: no API that conflicts, fails, is slow or loses answers allows one too many."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import member
from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.core.admission import allow, deny
from upgrader.in_cluster.guard.core.ledger import Judgement, Ledger, Request
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound
from upgrader.in_cluster.guard.roles import ledger_writer as module
from upgrader.in_cluster.guard.roles.ledger_writer import Judge, LedgerWriter, Memory, all_agree
from upgrader.in_cluster.guard.runtime.informer import Key
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

BUDGETS = Resource("example.org/v1", "budgets")
KEY, OTHER = ("shop", "db"), ("shop", "web")


class Quota:
    """Lets as many pods go as the budget's spec says."""

    resource = BUDGETS

    def __init__(self) -> None:
        self.tries: list[str] = []

    def book_of(self, item: Object) -> Ledger:
        return Ledger.of((item.get("status") or {}).get("reservations"))

    def status_of(self, item: Object, book: Ledger) -> Mapping[str, Any]:
        return {"reservations": book.status()}

    async def judge_of(self, item: Object, requests: Sequence[Request], now: float) -> Judge[Ledger]:
        await asyncio.sleep(0)

        def judge(request: Request, book: Ledger) -> Judgement:
            if len(book.reservations) < item["spec"]["quota"]:
                return Judgement(allow(), "allowed", reserves=True)
            return Judgement(deny(429, "no more"), "denied")

        return judge

    def tried(self, requests: Sequence[Request]) -> None:
        self.tries += [each.id for each in requests]

    def given_back(self, book: Ledger, request: Request) -> Ledger:
        return book.give_back({request.id})


class Faulty(FakeApi):
    """Its calls take turns with others; it may lose answers of writes, keep them waiting, or drop what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0
        """How many of the next writes happen and aren't answered."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.prunes = False

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object | None:
        await asyncio.sleep(0)
        return await super().get(resource, name, namespace)

    async def replace(
        self, resource: Resource, manifest: Object, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        await self.gate.wait()
        await asyncio.sleep(0)
        written = await super().replace(resource, manifest, namespace, subresource=subresource)
        if self.prunes:
            return {**written, "status": {}}
        if self.lost:
            self.lost -= 1
            raise ApiAway("the connection broke")
        return written


class Versions:
    """A memory that says any version that the budget has had, as a watch that lags does; all of them are kept."""

    def __init__(self, api: Faulty, chance: random.Random) -> None:
        self._api, self._chance = api, chance
        self._seen: list[Object] = []

    def newest(self, budget: Key) -> Object | None:
        self._seen.append(copy.deepcopy(self._api.objects[BUDGETS.path(*budget)]))
        return self._chance.choice([None, *self._seen, self._seen[-1]])

    def wrote(self, budget: Key, item: Object) -> None:
        self._seen.append(item)

    def outdated(self, budget: Key) -> None: ...


class World:
    """Two budgets, and processes that share them."""

    def __init__(self, quota: int = 2) -> None:
        self.api = Faulty()
        for _, name in (KEY, OTHER):
            self.api.put(BUDGETS, {"metadata": {"name": name}, "spec": {"quota": quota}}, "shop")
        self.naps: list[float] = []
        self.quota = Quota()
        self.writer, self.peer = self.process(), self.process()

    def process(self, memory: Memory | None = None) -> LedgerWriter[Ledger]:
        return LedgerWriter(self.api, self.quota, memory, clock=lambda: 1000.0, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        await asyncio.sleep(0)

    def reserved(self, name: str = "db") -> set[str]:
        found = self.api.objects[BUDGETS.path("shop", name)].get("status") or {}
        return set(Ledger.of(found.get("reservations")).reservations)

    def writes(self) -> int:
        return sum(call.startswith("replace ") for call in self.api.calls)


def ask(pod: str, name: str = "", **more: bool) -> Request:
    """By a request of its own."""
    return Request(name or f"of-{pod}", member(pod), **more)


def run(test: Callable[[World], Awaitable[None]], quota: int = 2) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        async with asyncio.timeout(30):
            await test(World(quota))

    asyncio.run(whole())


async def asked(writer: LedgerWriter[Ledger], *requests: Request) -> list[bool]:
    """What is said to each, asked at once."""
    found = await asyncio.gather(*(writer.ask(KEY, each, 20) for each in requests))
    return [each.answer.allowed for each in found]


def test_what_is_allowed_is_written_before_it_is_said() -> None:
    """The place is in the status by the time of the answer; a refusal writes nothing."""

    async def test(world: World) -> None:
        assert await asked(world.writer, ask("web-0")) == [True]
        assert world.reserved() == {"web-0"} and world.writes() == 1
        assert await asked(world.writer, ask("web-1"), ask("web-2")) == [True, False]
        assert await asked(world.writer, ask("web-3")) == [False]
        assert world.reserved() == {"web-0", "web-1"} and world.writes() == 2

    run(test)


def test_one_that_gives_up_while_the_budget_is_read_is_not_counted_as_tried() -> None:
    """Nobody takes its count away any more: a slow API would leave one for each request, for ever."""

    async def test(world: World) -> None:
        gone = asyncio.ensure_future(world.writer.ask(KEY, ask("web-0"), 20))
        stays = asyncio.ensure_future(world.writer.ask(KEY, ask("web-1"), 20))
        for _ in range(2):  # the read has begun, and takes a turn
            await asyncio.sleep(0)
        gone.cancel()
        assert (await stays).answer.allowed
        assert world.quota.tries == ["of-web-1"] and world.reserved() == {"web-1"}

    run(test)


def test_what_arrives_meanwhile_shares_the_next_write() -> None:
    """Twenty requests while the first write is under way: one more write for all; another budget waits for none."""

    async def test(world: World) -> None:
        world.api.gate.clear()
        first = asyncio.ensure_future(asked(world.writer, ask("web-0")))
        for _ in range(10):
            await asyncio.sleep(0)
        others = asyncio.ensure_future(asked(world.writer, *(ask(f"web-{n}") for n in range(1, 21))))
        elsewhere = asyncio.ensure_future(world.writer.ask(OTHER, ask("api-0"), 20))
        for _ in range(10):
            await asyncio.sleep(0)
        world.api.gate.set()
        assert (await first, await others) == ([True], [True] * 20)
        assert (await elsewhere).answer.allowed
        assert world.writes() == 3

    run(test, quota=100)


def test_a_dry_run_writes_nothing() -> None:
    """It is answered as it would be otherwise."""

    async def test(world: World) -> None:
        assert await asked(world.writer, *(ask(f"web-{n}", dry_run=True) for n in range(3))) == [True] * 3
        await asked(world.writer, ask("web-0"), ask("web-1"))
        assert await asked(world.writer, ask("web-2", dry_run=True)) == [False]
        assert world.writes() == 1

    run(test)


def test_what_is_remembered_is_not_read() -> None:
    """A place is taken by one write. What is outdated is read, without a pause; and so is what refuses: an older object
    may have fewer places than there are now.
    """

    class Remembered(Versions):
        def __init__(self, item: Object) -> None:
            self.item: Object | None = item

        def newest(self, budget: Key) -> Object | None:
            return self.item

        def wrote(self, budget: Key, item: Object) -> None:
            self.item = item

        def outdated(self, budget: Key) -> None:
            self.item = None

    async def test(world: World) -> None:
        memory = Remembered(copy.deepcopy(world.api.objects[BUDGETS.path(*KEY)]))
        writer = world.process(memory)
        assert await asked(writer, ask("web-0")) == [True] and await asked(writer, ask("web-1")) == [True]
        assert [call.split()[0] for call in world.api.calls] == ["replace", "replace"]

        await world.peer.change(KEY, lambda book: book.without("web-0"), 20)
        assert await asked(writer, ask("web-2")) == [True], "as the object is now, and not as it was"
        assert world.reserved() == {"web-1", "web-2"} and not world.naps
        await world.peer.change(KEY, lambda book: book.without("web-1"), 20)
        memory.item = copy.deepcopy(world.api.objects[BUDGETS.path(*KEY)])
        await world.peer.change(KEY, lambda book: book.without("web-2"), 20)
        assert await asked(writer, ask("web-3"), ask("web-4")) == [True, True] and not world.naps

    run(test)


def test_after_a_conflict_it_is_judged_again() -> None:
    """By what is there then, after 100 to 200 ms: two processes ask for the last place at once, and one gets it."""

    async def test(world: World) -> None:
        both = await asyncio.gather(asked(world.writer, ask("web-0")), asked(world.peer, ask("web-1")))
        assert sorted(both) == [[False], [True]] and len(world.reserved()) == 1
        assert world.naps and all(0.1 <= nap <= 0.2 for nap in world.naps)

    run(test, quota=1)


@pytest.mark.parametrize("error", [Conflict("modified", 409), ApiAway("500")])
def test_what_fails_for_a_while_is_tried_again(error: Exception) -> None:
    """A conflict, or an API that can't answer now."""

    async def test(world: World) -> None:
        world.api.next_answer("replace", error, error)
        world.api.next_answer("get", None, ApiAway("away"))
        assert await asked(world.writer, ask("web-0")) == [True]
        assert world.reserved() == {"web-0"}

    run(test)


def test_a_lost_answer_takes_no_second_place() -> None:
    """The write has happened: the request finds its own reservation, and both places are taken, not three."""

    async def test(world: World) -> None:
        world.api.lost = 1
        assert await asked(world.writer, ask("web-0"), ask("web-1")) == [True, True]
        assert world.reserved() == {"web-0", "web-1"} and world.writes() == 1
        assert await asked(world.peer, ask("web-2")) == [False]

    run(test)


def test_a_deadline_ends_the_wait_and_says_why() -> None:
    """Each request has its own; what gives up before it is judged takes no place."""

    async def test(world: World) -> None:
        world.api.next_answer("get", *[ApiAway("etcd is away")] * 100_000)
        with pytest.raises(ApiAway, match=r"budgets shop/db: not written within 0.01 s: etcd is away"):
            await world.writer.ask(KEY, ask("web-0"), 0.01)
        world.api.answers.clear()
        world.api.gate.clear()
        first = asyncio.ensure_future(asked(world.writer, ask("web-1")))
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(ApiAway):
            await world.writer.ask(KEY, ask("web-2"), 0.01)
        world.api.gate.set()
        assert await first == [True]
        assert "web-2" not in world.reserved()

    run(test)


def test_what_is_refused_is_said_at_once() -> None:
    """A right that is missing, a budget that is gone; the next request is asked anew."""

    async def test(world: World) -> None:
        world.api.next_answer("replace", ApiRefused("cannot update budgets/status", 403))
        with pytest.raises(ApiRefused, match="cannot update"):
            await world.writer.ask(KEY, ask("web-0"), 20)
        with pytest.raises(NotFound):
            await world.writer.ask(("shop", "none"), ask("web-0"), 20)
        assert await asked(world.writer, ask("web-0")) == [True]

    run(test)


def test_a_status_that_is_not_kept_allows_nothing() -> None:
    """A CRD without the field drops it silently: that would allow everything. It may be one of guard's own, of another
    version, while Helm rolls the chart back: then nothing is to be applied by hand, which Helm would meet as changed.
    """

    async def test(world: World) -> None:
        world.api.prunes = True
        with pytest.raises(ApiRefused) as refused:
            await world.writer.ask(KEY, ask("web-0"), 20)
        what, _, rest = str(refused.value).partition(": the CustomResourceDefinition budgets.example.org ")
        why, remedies = rest.split(": ")
        assert what == "the API server drops reservations from the status of budgets shop/db"
        assert why == "isn't the one of this version of guard"
        assert [each.split()[0] for each in remedies.split("; ")] == ["wait", "if"] and "rolled back" in remedies

    run(test)


def test_a_status_that_cannot_be_written_allows_nothing() -> None:
    """A CRD without the subresource answers 404 for it, as if the budget were gone: that would allow everything."""

    async def test(world: World) -> None:
        world.api.next_answer("replace", NotFound("PUT …/status: 404", 404))
        with pytest.raises(ApiRefused, match=r"can't be written: the CustomResourceDefinition") as refused:
            await world.writer.ask(KEY, ask("web-0"), 20)
        assert not isinstance(refused.value, NotFound)

    run(test)


def test_what_one_budget_refuses_is_given_back_by_the_others() -> None:
    """The place is free for another pod; where all agree, each has it."""

    async def test(world: World) -> None:
        request = ask("web-0")
        await world.writer.ask(OTHER, ask("api-0"), 20)
        found = await all_agree([(world.writer, KEY, request), (world.writer, OTHER, request)], 20)
        assert [each.answer.allowed for each in found] == [True, False]
        assert world.reserved() == set() and world.reserved("web") == {"api-0"}
        again = ask("api-0", "again")
        assert all(
            each.answer.allowed for each in await all_agree([(world.writer, k, again) for k in (KEY, OTHER)], 20)
        )
        assert world.reserved() == world.reserved("web") == {"api-0"}

    run(test, quota=1)


def test_a_place_that_cannot_be_given_back_stays() -> None:
    """It is logged, and the answer is given all the same."""

    async def test(world: World) -> None:
        await world.writer.ask(OTHER, ask("api-0"), 20)
        world.api.next_answer("replace", None, ApiRefused("forbidden", 403))
        found = await all_agree([(world.writer, k, ask("web-0")) for k in (KEY, OTHER)], 20)
        assert not found[-1].answer.allowed and world.reserved() == {"web-0"}

    run(test, quota=1)


def test_a_denial_is_answered_in_time_whatever_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes too late is none, and a failurePolicy may let the pod go that a budget has refused. What is
    given back is written all the same. The loop's time is the test's: the deadline is over once a place is given back.
    """
    monkeypatch.setattr(module, "_GIVE_BACK_SECONDS", 3600)
    late = 0.0

    async def test(world: World) -> None:
        await world.writer.ask(OTHER, ask("api-0"), 20)
        writes, may_write, plain = list[str](), asyncio.Event(), world.api.replace

        async def replace(*of: Any, **options: Any) -> Any:
            nonlocal late
            writes.append("")
            if len(writes) > 1:
                late = 12.0
                await may_write.wait()
            return await plain(*of, **options)

        world.api.replace = replace  # type: ignore[method-assign]
        loop = asyncio.get_running_loop()
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + late)
        found = await all_agree([(world.writer, k, ask("web-0")) for k in (KEY, OTHER)], 10)
        assert not found[-1].answer.allowed and world.reserved() == {"web-0"}
        may_write.set()
        while world.reserved():
            await asyncio.sleep(0)

    run(test, quota=1)


def test_a_change_is_written_in_its_turn() -> None:
    """With the requests of the same time; one that changes nothing writes nothing."""

    async def test(world: World) -> None:
        await asked(world.writer, ask("web-0"))
        await world.writer.change(KEY, lambda book: book, 20)
        assert world.writes() == 1
        change = world.writer.change(KEY, lambda book: book.without("web-0"), 20)
        _, answer = await asyncio.gather(change, world.writer.ask(KEY, ask("web-1"), 20))
        assert answer.answer.allowed and world.reserved() == {"web-1"} and world.writes() == 2

    run(test, quota=1)


def test_what_breaks_is_told_to_who_waits() -> None:
    """No request waits for a task that has died."""

    async def test(world: World) -> None:
        def broken(book: Ledger) -> Ledger:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await world.writer.change(KEY, broken, 20)
        assert await asked(world.writer, ask("web-0")) == [True]

    run(test)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), quota=st.integers(0, 4), many=st.integers(1, 30), remembers=st.booleans())
def test_never_more_than_the_quota(seed: int, quota: int, many: int, remembers: bool) -> None:
    """Two processes, requests at once, conflicts, errors and lost answers; one process is killed at any moment; what
    they remember may be outdated. Who is told "allowed" is in the ledger, and they are never more than the quota.
    """
    chance = random.Random(seed)

    async def test(world: World) -> None:
        for verb in ("get", "replace"):
            errors = [None, ApiAway("away"), Conflict("modified", 409)]
            world.api.next_answer(verb, *chance.choices(errors, [6, 1, 1], k=60))
        world.api.lost = chance.randint(0, 3)
        if remembers:
            world.writer, world.peer = (world.process(Versions(world.api, chance)) for _ in range(2))
        processes = (world.writer, world.peer)
        tasks = [
            (chance.choice(processes), ask(f"web-{chance.randint(0, 9)}", f"request-{number}"))
            for number in range(many)
        ]
        waiting = [(w, r, asyncio.ensure_future(w.ask(KEY, r, 20))) for w, r in tasks]
        for _ in range(chance.randint(0, 60)):
            await asyncio.sleep(0)
        for writer, _, task in waiting:
            if writer is world.peer:
                task.cancel()
        for working in world.peer._working.values():
            working.cancel()
        await asyncio.gather(*(task for _, _, task in waiting), return_exceptions=True)
        allowed = {
            request.pod.uid
            for _, request, task in waiting
            if not task.cancelled() and not task.exception() and task.result().answer.allowed
        }
        assert len(allowed) <= quota and allowed <= world.reserved()

    run(test, quota)
