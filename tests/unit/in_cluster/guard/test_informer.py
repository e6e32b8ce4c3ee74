"""The cache: what it knows after lists, events, gaps and a server that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.guard_errors import AnswerTooLarge, ApiAway, ApiRefused, VersionGone
from upgrader.in_cluster.guard.runtime import listing as module
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.informer import Informer, unlisted, whole
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

PODS = Resource("v1", "pods")
GONE = VersionGone("too old", 410)


def pod(name: str, version: int = 1, **labels: str) -> dict[str, Any]:
    """A pod in the namespace `shop`."""
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": str(version), "labels": labels}}


def event(kind: str, item: Object) -> dict[str, Any]:
    """As a watch brings it."""
    return {"type": kind, "object": item}


class Following:
    """An informer that follows a fake server, and what it told."""

    def __init__(self, api: FakeApi, **more: Any) -> None:
        self.seconds = 0.0
        self.told: list[tuple[str, str]] = []
        keep = more.pop("keep", whole)
        self.informer = Informer(api, PODS, "shop", keep=keep, backoff=Backoff(0.001, 0.001), clock=self._now, **more)
        self.informer.tell(self._hear)

    def names(self) -> list[str]:
        return sorted(name for _, name in self.informer.objects)

    def _now(self) -> float:
        self.seconds += 10  # no watch is short
        return self.seconds

    def _hear(self, before: Any, after: Any) -> None:
        kind, found = "added" if before is None else "deleted" if after is None else "changed", after or before
        self.told.append((kind, found if isinstance(found, str) else found["metadata"]["name"]))


def follow(test: Callable[[FakeApi, Following], Awaitable[None]], **more: Any) -> None:
    """Run a test while an informer follows."""

    async def run() -> None:
        api = FakeApi()
        for name in ("a", "b", "c"):
            api.put(PODS, pod(name), "shop")
        following = Following(api, **more)
        task = asyncio.create_task(following.informer.run())
        try:
            async with asyncio.timeout(5):
                await test(api, following)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


async def drained(api: FakeApi) -> None:
    """Until all events were read."""
    while not api.events.empty():
        await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_it_lists_in_pages_and_then_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the list it knows all, and each event changes what it knows and is told once, bookmarks excepted."""
    monkeypatch.setattr(module, "_LARGEST_PAGE", 2)

    async def test(api: FakeApi, following: Following) -> None:
        await following.informer.synced.wait()
        assert following.names() == ["a", "b", "c"]
        for each in (
            event("ADDED", pod("d", 110)),
            event("MODIFIED", pod("a", 111, zone="x")),
            event("BOOKMARK", {"metadata": {"resourceVersion": "150"}}),
            event("DELETED", pod("b", 151)),
            None,
        ):
            api.events.put_nowait(each)
        await drained(api)
        assert following.names() == ["a", "c", "d"]
        assert following.told[3:] == [("added", "d"), ("changed", "a"), ("deleted", "b")]
        while len(api.calls) < 4:
            await asyncio.sleep(0)
        assert [call.partition("?")[2] for call in api.calls] == [
            "limit=2&continue=",
            "limit=2&continue=2",
            "resourceVersion=103",
            "resourceVersion=151",
        ], "the second watch goes on where the first one ended"

    follow(test)


def test_what_it_missed_is_told_after_a_gap() -> None:
    """Where the server has forgotten the moment, all is listed again: what has gone meanwhile is told as deleted."""

    async def test(api: FakeApi, following: Following) -> None:
        await following.informer.synced.wait()
        del api.objects[PODS.path("shop", "a")]
        api.put(PODS, pod("b", zone="x"), "shop")
        api.put(PODS, pod("e"), "shop")
        api.events.put_nowait(GONE)
        await drained(api)
        while len(following.told) < 6:
            await asyncio.sleep(0)
        assert following.told[3:] == [("deleted", "a"), ("changed", "b"), ("added", "e")], "c is as it was"

    follow(test)


def test_pages_of_a_forgotten_moment_are_read_in_one_piece() -> None:
    """A list that takes longer than the server remembers is asked for in pages once more, as one piece takes much
    memory; then without pages.
    """

    async def test(api: FakeApi, following: Following) -> None:
        await following.informer.synced.wait()
        limits = [call.partition("?")[2].partition("&")[0] for call in api.calls[:3]]
        assert limits == ["limit=500", "limit=500", "limit=0"]
        assert following.names() == ["a", "b", "c"]

    async def gone(api: FakeApi, following: Following) -> None:
        await test(api, following)

    async def run() -> None:
        api = FakeApi()
        for name in ("a", "b", "c"):
            api.put(PODS, pod(name), "shop")
        api.next_answer("page", GONE, GONE)
        following = Following(api)
        task = asyncio.create_task(following.informer.run())
        await gone(api, following)
        task.cancel()

    asyncio.run(run())


def test_pages_grow_again_after_large_objects() -> None:
    """A page that was too large is followed by smaller ones, and these by larger ones, so that a tenant's few large
    pods don't have thousands of others be asked for one by one.
    """

    async def run() -> None:
        api = FakeApi()
        for number in range(1000):
            api.put(PODS, pod(f"p-{number}"), "shop")
        api.next_answer("page", *[AnswerTooLarge("too large")] * 3)
        informer = Informer(api, PODS, keep=whole)
        await informer._list()
        assert len(informer.objects) == 1000
        limits = [int(call.partition("limit=")[2].partition("&")[0]) for call in api.calls]
        assert limits == [500, 125, 31, 7, 14, 28, 56, 112, 224, 448, 500]

    asyncio.run(run())


def test_a_server_that_is_away_leaves_what_is_known() -> None:
    """Nothing is forgotten while nothing answers; it says for how long it has heard nothing, and goes on afterwards."""

    async def test(api: FakeApi, following: Following) -> None:
        await following.informer.synced.wait()
        api.next_answer("watch", ApiAway("refused"), ApiRefused("watch: 403", 403), ApiAway("refused"))
        heard = following.informer.silent_seconds()
        api.events.put_nowait(None)
        while sum(call.startswith("watch") for call in api.calls) < 5:
            await asyncio.sleep(0.001)
        assert following.names() == ["a", "b", "c"]
        assert following.informer.silent_seconds() > heard
        api.events.put_nowait(event("ADDED", pod("d", 120)))
        await drained(api)
        assert following.names() == ["a", "b", "c", "d"]

    follow(test)


@pytest.mark.parametrize("told", [(), (event("BOOKMARK", {"metadata": {"resourceVersion": "103"}}),)])
def test_a_watch_that_told_nothing_new_has_heard_nothing(told: tuple[dict[str, Any], ...]) -> None:
    """It ends in good order, without an event or with a bookmark of the version that it began with: whatever is in
    between may have swallowed the rest, so that all is listed again.
    """

    async def test(api: FakeApi, following: Following) -> None:
        await following.informer.synced.wait()
        del api.objects[PODS.path("shop", "b")]
        before = following.informer._contact
        for each in told:
            api.events.put_nowait(each)
        await drained(api)
        assert following.informer._contact == before
        api.events.put_nowait(None)
        while following.names() != ["a", "c"]:
            await asyncio.sleep(0)
        assert [call.partition(" ")[0] for call in api.calls[:3]] == ["page", "watch", "page"]

    follow(test)


def test_a_quiet_cluster_is_no_doubt() -> None:
    """Where nothing changes for an hour, watches tell nothing, not even by a bookmark: the list after each of them says
    that nothing has, so that it is known all the time.
    """

    async def run() -> None:
        api, seconds = FakeApi(), [0.0]
        informer = Informer(api, PODS, keep=whole, clock=lambda: seconds[0])
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        for minute in range(1, 61):
            seconds[0] = minute * 60.0
            assert informer.why_not == ""
            api.events.put_nowait(None)
            while informer.silent_seconds():
                await asyncio.sleep(0)
        task.cancel()
        assert [call.partition(" ")[0] for call in api.calls[:4]] == ["page", "watch"] * 2

    asyncio.run(run())


def test_after_a_long_silence_it_lists_instead_of_waiting_for_a_bookmark() -> None:
    """A server that was away for minutes and is back has told nothing until a list says what there is: a watch could
    take another minute to say anything.
    """

    async def run() -> None:
        api, seconds = FakeApi(), [0.0]
        api.put(PODS, pod("a"), "shop")
        informer = Informer(api, PODS, keep=whole, backoff=Backoff(0.001, 0.001), clock=lambda: seconds[0])
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        assert informer.why_not == ""
        seconds[0] = 600.0
        assert informer.why_not == "pods: the API server has sent nothing for 600 s"
        api.events.put_nowait(ApiAway("refused"))
        while informer.why_not:
            await asyncio.sleep(0.001)
        task.cancel()
        assert [call.partition(" ")[0] for call in api.calls[:3]] == ["page", "watch", "page"]

    asyncio.run(run())


class Ending(FakeApi):
    """Whose watches last for a minute and tell nothing; they end in good order, or break off as if nothing answered."""

    def __init__(self, *, breaks_off: bool) -> None:
        super().__init__()
        self.seconds, self.breaks_off = 0.0, breaks_off
        self.asked: Callable[[], None] = lambda: None

    async def watch(self, *of: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        self._check("watch", "")
        self.seconds += 65.0 if self.breaks_off else 60.0
        self.asked()
        await asyncio.sleep(0)
        if self.breaks_off:
            raise ApiAway("no answer in time")
        for each in list[dict[str, Any]]():
            yield each


@pytest.mark.parametrize("breaks_off", [False, True], ids=["quiet", "dead"])
def test_a_quiet_cluster_is_known_and_a_dead_watch_is_not_trusted(breaks_off: bool) -> None:
    """Where no object changes for an hour, and no bookmark comes, a list a minute says that all is as it was. Where
    watches break off and no list comes either, nothing is known any more after three minutes.
    """

    async def run() -> None:
        api, known = Ending(breaks_off=breaks_off), list[bool]()
        api.put(PODS, pod("a"), "shop")
        informer = Informer(api, PODS, keep=whole, backoff=Backoff(0.0, 0.0), clock=lambda: api.seconds)
        api.asked = lambda: known.append(not informer.why_not)
        if breaks_off:
            api.next_answer("page", None, *[ApiAway("refused")] * 5)
        task = asyncio.create_task(informer.run())
        while len(known) < (3 if breaks_off else 60) or (breaks_off and api.answers["page"]):
            await asyncio.sleep(0)
        lists = sum(call.startswith("page") for call in api.calls)
        task.cancel()
        assert known[:3] == [True, True, not breaks_off]
        assert breaks_off or (all(known) and lists >= len(known) - 1)

    asyncio.run(run())


def test_what_was_listed_is_known_up_to_when_the_list_began() -> None:
    """A list of many pages takes a while, and all of them are of the moment of the first."""

    async def run() -> None:
        clock = iter([7.0, 9.0, 10.0])
        informer = Informer(FakeApi(), PODS, keep=whole, clock=lambda: next(clock))
        await informer._list()
        assert informer.silent_seconds() == 2.0

    asyncio.run(run())


def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_loop() -> None:
    """A server that stops ends watches as soon as they begin: the next one waits."""

    async def run() -> None:
        api, waited = FakeApi(), list[float]()

        class Counting(Backoff):
            def next_seconds(self) -> float:
                waited.append(super().next_seconds())
                return 0

        informer = Informer(api, PODS, keep=whole, backoff=Counting(), clock=lambda: 1.0)
        task = asyncio.create_task(informer.run())
        for _ in range(3):
            api.events.put_nowait(None)
        await drained(api)
        while len(waited) < 3:
            await asyncio.sleep(0)
        task.cancel()
        assert all(waited)

    asyncio.run(run())


def test_only_what_a_role_needs_is_kept() -> None:
    """`keep` makes the cache small, in whatever form: changes are told by the versions that the API had. Who comes
    late hears of all that is there.
    """

    def name_only(found: dict[str, Any]) -> str:
        return str(found["metadata"]["name"])

    async def test(api: FakeApi, following: Following) -> None:
        await following.informer.synced.wait()
        assert sorted(following.informer.objects.values()) == ["a", "b", "c"]
        late: list[Any] = []
        following.informer.tell(lambda before, after: late.append(after))
        assert len(late) == 3
        assert following.informer.name == "pods in shop"
        api.events.put_nowait(event("MODIFIED", pod("a", 7)))
        api.events.put_nowait(event("DELETED", pod("b", 8)))
        await drained(api)
        assert following.told[3:] == [("changed", "a"), ("deleted", "b")]
        following.told.clear()
        await following.informer._list()  # of what the server has, a and b are other versions by now, and c isn't
        assert sorted(following.told) == [("added", "b"), ("changed", "a")]

    follow(test, keep=name_only)


def test_nothing_is_known_before_the_first_list() -> None:
    """It is infinitely long ago that the server was heard of."""

    async def run() -> None:
        assert Informer(FakeApi(), PODS, keep=whole).silent_seconds() == float("inf")

    asyncio.run(run())


def test_a_namespace_that_refuses_guard_keeps_no_replica_from_being_ready() -> None:
    """Its administrator has deleted guard's RoleBinding there: a replica that starts is ready for the others. It isn't
    where none can be listed, as guard has no rights at all, and where one can't be reached.
    """

    async def test() -> None:
        api = FakeApi()
        here, there = (Informer(api, PODS, each, keep=whole, backoff=Backoff(9, 9)) for each in ("shop", "lab"))

        async def begin(informer: Informer[Any], error: Exception | None) -> None:
            api.next_answer("page", error)
            task = asyncio.create_task(informer.run())
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        await begin(there, ApiRefused("pods is forbidden", 403))
        assert unlisted([here, there]) == [here, there]
        await begin(here, None)
        assert unlisted([here, there]) == []
        await begin(there, ApiAway("no answer"))
        assert unlisted([here, there]) == [there]
        await begin(there, None)
        assert unlisted([here, there]) == [] and not there.refused

    asyncio.run(test())
