"""Records each allowed deletion in the status of the budget that allows it, before the answer is sent.

In each process, one task at a time writes a budget: it takes the object, decides all requests that wait by then, and
replaces the status with the resourceVersion that it has. Later requests share the next write. If another process writes
at the same time, one of the two gets a conflict: it reads and decides everything again, 100 to 200 ms later.

The object may be one that this process remembers: a successful write shows that it was the newest. The object is read
from the API if the memory has none, and if there would be nothing to write.

A write whose answer is lost may have happened. The object is then read and decided again: a request that finds its own
reservation takes no second one, and the resourceVersion keeps a late write from undoing a newer one. "Allowed" is
answered only after the write has succeeded, or if none was needed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from upgrader.in_cluster.guard.core.ledger import Book, Judgement, Request, admit, refusal
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Key
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["Books", "Judge", "LedgerWriter", "Memory", "all_agree"]

_TRY_SECONDS = 5.0
"""After this time a write is given up whose call doesn't return: the waiting requests have deadlines."""
_AGAIN_SECONDS = (0.1, 0.2)
_GIVE_BACK_SECONDS = 1.0

B = TypeVar("B", bound=Book)
Judge = Callable[[Request, B], Judgement]


class Books(Protocol[B]):
    """How a kind of budget stores its reservations."""

    @property
    def resource(self) -> Resource:
        """The kind."""
        ...

    def book_of(self, item: Object) -> B:
        """The reservations, from the API's object."""
        ...

    def status_of(self, item: Object, book: B) -> Mapping[str, Any]:
        """The whole status of this object with these reservations."""
        ...

    async def judge_of(self, item: Object, requests: Sequence[Request], now: float) -> Judge[B]:
        """Returns what decides these requests by the budget as it was just read; `now`: seconds since the epoch.

        Everything else that is needed is read here, once for all requests. Raises ApiAway for a retry, ApiRefused.
        """
        ...

    def tried(self, requests: Sequence[Request]) -> None:
        """These requests were decided. The write of their reservations follows; if it fails, they are tried again."""
        ...

    def given_back(self, book: B, request: Request) -> B:
        """The reservations without those of this request."""
        ...


class Memory(Protocol):
    """The newest version of each budget that this process knows, which may be older than the API's."""

    def newest(self, budget: Key) -> Object | None:
        """None if it isn't known."""
        ...

    def wrote(self, budget: Key, item: Object) -> None:
        """The API's answer to a write of this process."""
        ...

    def outdated(self, budget: Key) -> None:
        """The API has a newer version than `newest` returned."""
        ...


class _NoMemory:
    """No memory: each budget is read for each write."""

    def newest(self, budget: Key) -> None: ...

    def wrote(self, budget: Key, item: Object) -> None: ...

    def outdated(self, budget: Key) -> None: ...


@dataclass(eq=False)
class _Waiting(Generic[B]):
    """A request, or a change of the reservations."""

    done: asyncio.Future[Judgement | None]
    request: Request | None = None
    change: Callable[[B], B] | None = None
    failed: str = "the write before it failed"
    took: bool = False
    """Whether an attempt has reserved for it, whose answer may have been lost."""


class LedgerWriter(Generic[B]):
    """For all budgets of a kind, in one process and one event loop."""

    def __init__(
        self,
        api: Api,
        books: Books[B],
        memory: Memory | None = None,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._books, self._clock, self._sleep = api, books, clock, sleep
        self._memory: Memory = memory or _NoMemory()
        self._waiting: dict[Key, list[_Waiting[B]]] = {}
        self._working: dict[Key, asyncio.Task[None]] = {}

    async def ask(self, budget: Key, request: Request, seconds: float) -> Judgement:
        """The budget's decision, within `seconds`; a reservation is written before this returns.

        Raises NotFound if there is no such budget; ApiAway if it couldn't be read or written in time: a reservation may
        exist then, and is kept, as a failurePolicy may allow the request; ApiRefused: the reason.
        """
        judged = await self._in_turn(budget, _Waiting(self._future(), request=request), seconds)
        assert judged is not None
        return judged

    async def change(self, budget: Key, change: Callable[[B], B], seconds: float) -> None:
        """Change the reservations in turn, and write them if they differ. Raises as `ask` does.

        `change` may be called several times, each time with the reservations as they were just read.
        """
        await self._in_turn(budget, _Waiting(self._future(), change=change), seconds)

    async def give_back(self, budget: Key, request: Request) -> None:
        """Free the request's reservation; if that isn't possible, it expires after a while."""
        try:
            await self.change(budget, lambda book: self._books.given_back(book, request), _GIVE_BACK_SECONDS)
        except (ApiAway, ApiRefused) as error:
            LOG.warning("a reservation can't be released", extra={"pod": request.pod.name, "reason": str(error)})

    def _future(self) -> asyncio.Future[Judgement | None]:
        return asyncio.get_running_loop().create_future()

    async def _in_turn(self, budget: Key, mine: _Waiting[B], seconds: float) -> Judgement | None:
        self._waiting.setdefault(budget, []).append(mine)
        if budget not in self._working:
            self._working[budget] = asyncio.ensure_future(self._work(budget))
        try:
            async with asyncio.timeout(seconds):
                return await mine.done  # the request is cancelled with us, and then isn't decided any more
        except TimeoutError:
            what = f"{self._books.resource.plural} {'/'.join(budget)}: not written within {seconds:g} s"
            raise ApiAway(f"{what}: {mine.failed}") from None

    async def _work(self, budget: Key) -> None:
        """Write as long as there are waiting requests."""
        try:
            while waiting := self._those_left(budget):
                try:
                    async with asyncio.timeout(_TRY_SECONDS):
                        await self._write(budget, waiting)
                except (ApiAway, Conflict, TimeoutError) as error:
                    for each in waiting:
                        each.failed = str(error) or f"no answer within {_TRY_SECONDS:g} s"
                    await self._sleep(random.uniform(*_AGAIN_SECONDS))  # noqa: S311 - so that two don't meet again
                except Exception as error:  # noqa: BLE001 - waiting requests get any error
                    for each in waiting:
                        if not each.done.done():
                            each.done.set_exception(error)
        finally:
            del self._working[budget], self._waiting[budget]

    def _those_left(self, budget: Key) -> list[_Waiting[B]]:
        left = [each for each in self._waiting[budget] if not each.done.done()]
        self._waiting[budget] = left
        return list(left)

    async def _write(self, budget: Key, waiting: Sequence[_Waiting[B]]) -> None:
        remembered = self._memory.newest(budget)
        if remembered is not None:
            try:
                if await self._write_to(remembered, budget, waiting, only_if_written=True):
                    return
            except Conflict:
                self._memory.outdated(budget)
        await self._write_to(await self._read(budget), budget, waiting)

    async def _write_to(
        self, item: Object, budget: Key, waiting: Sequence[_Waiting[B]], *, only_if_written: bool = False
    ) -> bool:
        """Decide by this object, write the reservations, and answer; `only_if_written`: if there is nothing to write,
        do nothing and return that.
        """
        now, requests = self._clock(), [each.request for each in waiting if each.request is not None]
        judge = await self._books.judge_of(item, requests, now) if requests else None
        before = book = self._books.book_of(item)
        answers: list[tuple[_Waiting[B], Judgement | None]] = []
        for each in waiting:
            judged: Judgement | None = None
            if each.done.done():
                continue  # it has given up: it must take no place
            if each.change is not None:
                book = each.change(book)
            elif each.request is not None and judge is not None:
                (judged,), book = admit(book, [each.request], now, judge)
                each.took = each.took or judged.took
                judged = replace(judged, took=each.took)
            answers.append((each, judged))
        if book == before and only_if_written:
            return False
        self._books.tried([each.request for each, _ in answers if each.request is not None])
        if book != before:
            self._memory.wrote(budget, await self._replace(item, book, budget[0]))
        for each, judged in answers:
            if not each.done.done():
                each.done.set_result(judged)
        return True

    async def _read(self, budget: Key) -> Object:
        namespace, name = budget
        item = await self._api.get(self._books.resource, name, namespace)
        if item is None:
            raise NotFound(f"there is no {self._books.resource.plural} {namespace}/{name}", 404)
        return item

    async def _replace(self, item: Object, book: B, namespace: str) -> Object:
        books, resource = self._books, self._books.resource
        changed, name = {**item, "status": books.status_of(item, book)}, str(item["metadata"]["name"])
        what = f"{resource.plural} {namespace}/{name}"
        another = (
            f"the CustomResourceDefinition {resource.plural}.{resource.api_version.partition('/')[0]} isn't the one of "
            "this version of guard: wait until Helm has upgraded or rolled back guard's chart; if no release is in "
            "progress, apply the definition of the chart"
        )
        try:
            written = await self._api.replace(resource, changed, namespace, subresource="status")
        except NotFound:
            if await self._api.get(resource, name, namespace) is None:
                raise
            # The object exists. NotFound would mean that it is gone, and a budget that is gone denies nothing.
            raise ApiRefused(f"the status of {what} can't be written: {another}", 404) from None
        if written.get("status") != changed["status"] and (
            books.status_of(written, books.book_of(written)) != books.status_of(written, book)
        ):
            # Fields that aren't in a schema are dropped without an error: no reservation would ever be stored.
            raise ApiRefused(f"the API server drops reservations from the status of {what}: {another}", 422)
        return written


async def all_agree(asked: Sequence[tuple[LedgerWriter[Any], Key, Request]], seconds: float) -> tuple[Judgement, ...]:
    """The decisions of several budgets, one after the other, up to the first denial, within `seconds`.

    After a denial, the reservations in the others are freed; what isn't written by then is written later, as an answer
    that is late is none. Raises as `ask` does; reservations are kept then.
    """
    until = asyncio.get_running_loop().time() + seconds
    judgements: list[Judgement] = []
    for writer, budget, request in asked:
        left = max(0.0, until - asyncio.get_running_loop().time())
        judgements.append(await writer.ask(budget, request, left))
        if refusal(judgements):
            took = [each for each, judged in zip(asked, judgements, strict=False) if judged.took]
            if took:
                freeing = [asyncio.ensure_future(w.give_back(b, r)) for w, b, r in took]
                await asyncio.wait(freeing, timeout=max(0.0, until - asyncio.get_running_loop().time()))
            break
    return tuple(judgements)
