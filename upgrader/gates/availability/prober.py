"""The prober's process: `python -m upgrader.gates.availability.prober OPTIONS`, where OPTIONS is JSON (see `Options`).

Sends requests at a fixed rate, whether or not earlier ones were answered (an open loop: a slow server doesn't slow the
probing), and measures their latency from when they were due, so that a request's wait for its turn counts. Everything
runs in one thread: its cost is small and known, and no lock or scheduler of Python's can delay what is measured.

It writes its counts to stdout, one JSON line each time, with the samples (`samples.py`) that are complete. Lines on
stdin name the phase (`phase NAME`). It ends with its stdin, so it never outlives its parent, and deletes its object in
the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from upgrader.errors import UpgraderError, UsageError
from upgrader.gates.availability.api_endpoint import ApiEndpoint, read_endpoint
from upgrader.gates.availability.http_clients import PROTOCOLS, Client, FreshClient, KeptClient, Protocols, SharedClient
from upgrader.gates.availability.http_exchange import Request
from upgrader.gates.availability.long_watch import LongWatch
from upgrader.gates.availability.retry_policy import Outcome, ask
from upgrader.gates.availability.samples import Samples
from upgrader.gates.availability.schedule import deal
from upgrader.gates.availability.tally import Probed, Tally
from upgrader.gates.written_objects import AVAILABILITY, PROBE_NAMESPACE, availability_object
from upgrader.model.availability import Watches

__all__ = ["COLLECTION", "OBJECT", "Options", "Prober", "main"]

DEADLINE_SECONDS = 10.0
"""The time after which a request has failed."""
REPORT_SECONDS = 0.5
RENEW_SECONDS = 5.0
"""How often it checks whether credentials are to be read again."""
STALL_SECONDS = 0.05
"""A prober that is later than this was not scheduled: that time counts as no gap."""
LEAVE_SECONDS = 3.0
"""How long the end waits for outstanding answers."""
OBJECT = AVAILABILITY
COLLECTION = f"/api/v1/namespaces/{PROBE_NAMESPACE}/configmaps"

_VERSION = re.compile(rb'"resourceVersion": ?"(\d+)"')


@dataclass(frozen=True)
class Options:
    """The prober's options. `addresses` (`https://HOST:PORT`) are probed besides the kubeconfig's own."""

    kubeconfig: str
    context: str
    requests_per_second: float
    addresses: tuple[str, ...] = ()
    must_answer: bool = False
    """Whether every address must answer one request before the probing begins."""


_GET = Request("GET", f"{COLLECTION}/{OBJECT}", accept=(404,))  # its object may not exist yet
_LIST = Request("GET", f"{COLLECTION}?limit=5")
_WRITTEN = json.dumps(availability_object("TIME"))


def _write() -> Request:
    # A ConfigMap, as it may be replaced without a resource version (a Lease may not): the PUT is idempotent. 409 to the
    # POST means that another client has just created it.
    body = _WRITTEN.replace("TIME", datetime.now(UTC).isoformat(timespec="microseconds")).encode()
    create = Request("POST", COLLECTION, body, accept=(409,))
    return Request("PUT", f"{COLLECTION}/{OBJECT}", body, when_missing=create)


_KINDS: Sequence[tuple[str, Callable[[], Request]]] = (
    ("get", lambda: _GET),
    ("write", _write),
    ("list", lambda: _LIST),
)


@dataclass(frozen=True)
class _Lane:
    """One client of one address."""

    address: str
    client: Client
    writing: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False)
    """A client writes one object only, so it sends one write after the other, as controllers do; a write's wait counts.
    Concurrent writes would keep a slow server busy with their conflicts."""


class Prober:
    """Sends each kind of request through each kind of client and each address, in turn, and watches its own object."""

    def __init__(self, endpoints: Sequence[ApiEndpoint], requests_per_second: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._endpoints = {endpoint.authority: endpoint for endpoint in endpoints}
        self._interval = 1 / requests_per_second
        self._stop = asyncio.Event()
        self._tally = Tally(self._loop.time(), tuple(self._endpoints))
        self._samples = Samples(self._loop.time(), requests_per_second)
        self._tasks: set[asyncio.Task[None]] = set()
        self._bug: BaseException | None = None
        self._fresh: list[_Lane] = []
        self._kept: list[_Lane] = []
        self._watchers: list[LongWatch] = []
        self._watching: list[asyncio.Task[None]] = []
        self._began = (0.0, 0.0)
        for address, endpoint in self._endpoints.items():
            for protocol in PROTOCOLS:
                self._fresh.append(_Lane(address, FreshClient(endpoint, protocol)))
                self._watchers.append(self._watcher(address, endpoint, protocol))
            self._kept += [_Lane(address, KeptClient(endpoint)), _Lane(address, SharedClient(endpoint))]
        self._plan = deal(self._fresh, self._kept, _KINDS, requests_per_second)

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stop.set()

    def enter(self, phase: str) -> None:
        """The phase from now on."""
        self._tally.enter(phase)

    async def run(self, out: TextIO) -> None:
        """Probe until `stop`, reporting to `out`; then clean up and report once more, with `"final": true`."""
        self._loop.set_exception_handler(self._on_broken)
        self._began = self._loop.time(), time.process_time()
        self._watching = [self._start(watcher.run()) for watcher in self._watchers]
        self._report(out, self._loop.time())
        due = self._loop.time()
        self._next = self._loop.call_at(due, self._send_due, due)
        regularly = [self._start(self._report_regularly(out)), self._start(self._keep_fresh())]
        await self._stop.wait()
        self._next.cancel()
        for task in regularly:
            task.cancel()
        stopped = self._loop.time()
        await self._finish()
        if self._bug is not None:
            raise self._bug
        # The gap that is open now is open since we stopped asking, which is no fault of the server's.
        self._report(out, stopped, final=True)

    def _send_due(self, due: float) -> None:
        """Send what is due by now, and come back when the next one is; called by the loop."""
        now = self._loop.time()
        if (late := now - due) > STALL_SECONDS:
            self._tally.stalled(late)
            self._samples.stalled(late, now, time.time())
        # Time in which this process didn't run at all (a suspended laptop) is left out.
        due = max(due, now - DEADLINE_SECONDS)
        while due <= now:
            self._start(self._ask(*next(self._plan), due))
            due += self._interval
        self._next = self._loop.call_at(due, self._send_due, due)

    async def _report_regularly(self, out: TextIO) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self._report(out, self._loop.time())

    async def _keep_fresh(self) -> None:
        credentials = next(iter(self._endpoints.values())).credentials
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            await credentials.keep_fresh()

    async def _ask(self, lane: _Lane, kind: tuple[str, Callable[[], Request]], due: float) -> None:
        name, make = kind
        request = make()
        probed = self._probed(lane.address, lane.client.name, f"{name} {request.method} {request.path}", due)
        self._samples.begin(due, probed.time)
        async with lane.writing if name == "write" else contextlib.nullcontext():
            outcome = await ask(
                lane.client, request, deadline=due + DEADLINE_SECONDS, monotonic=self._loop.time, sleep=asyncio.sleep
            )
        now = self._loop.time()
        self._tally.record(probed, outcome, now)
        self._samples.end(name, due, probed.time, now, ok=outcome.ok)
        if name == "write" and outcome.ok:
            self._written(outcome.body, now)

    def _written(self, body: bytes, now: float) -> None:
        version = _VERSION.search(body)
        if version is not None:  # a conflict's answer has none
            for watcher in self._watchers:
                watcher.continuity.changed(int(version[1]), now)

    def _watcher(self, address: str, endpoint: ApiEndpoint, protocol: Protocols) -> LongWatch:
        client = f"kept {protocol}"

        def record(what: str, outcome: Outcome, due: float) -> None:
            now, probed = self._loop.time(), self._probed(address, client, what, due)
            self._tally.record(probed, outcome, now)
            self._samples.end("watch", due, probed.time, now, ok=outcome.ok, counted=False)

        return LongWatch(endpoint, protocol, COLLECTION, OBJECT, deadline_seconds=DEADLINE_SECONDS, record=record)

    def _probed(self, address: str, client: str, request: str, due: float) -> Probed:
        return Probed(address, client, request, self._tally.phase, due, time.time() - (self._loop.time() - due))

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        """Errors of requests are in the counts; an exception is a bug, and ends the prober."""
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._broken(bug)

    def _on_broken(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of the loop, which no task awaits, has failed."""
        self._broken(context.get("exception") or RuntimeError(str(context.get("message"))))

    def _broken(self, bug: BaseException) -> None:
        self._bug = self._bug or bug
        self._stop.set()

    async def _finish(self) -> None:
        """Wait a moment for outstanding answers, then remove the prober's own object."""
        for task in self._watching:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LEAVE_SECONDS)
        for task in (left := tuple(self._tasks)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for lane in (*self._fresh, *self._kept):
            lane.client.close()
        # If the API is unreachable, one small ConfigMap stays, which the next run reuses.
        client = FreshClient(next(iter(self._endpoints.values())), "HTTP/1.1")
        await client.send(Request("DELETE", f"{COLLECTION}/{OBJECT}"), self._loop.time() + LEAVE_SECONDS)

    def _report(self, out: TextIO, now: float, *, final: bool = False) -> None:
        began, used = self._began
        seen = [watcher.continuity for watcher in self._watchers]
        watches = Watches(
            events=sum(item.events for item in seen),
            missed=sum(item.missed for item in seen),
            repeated=sum(item.repeated for item in seen),
            resumed=sum(watcher.resumed for watcher in self._watchers),
        )
        share = (time.process_time() - used) / max(now - began, 0.001)
        counts = replace(self._tally.snapshot(now, watches, final=final), cpu_percent=round(share * 100, 2))
        try:
            samples = [sample.as_json() for sample in self._samples.take(now, final=final)]
            out.write(json.dumps({**asdict(counts), "samples": samples, "final": final}) + "\n")
            out.flush()
        except BrokenPipeError:
            self._stop.set()  # the parent has ended; the object in the cluster is still to be deleted


class _Orders:
    """The parent's lines on stdin."""

    def __init__(self, prober: Prober, descriptor: int) -> None:
        self._prober = prober
        self._descriptor = descriptor
        self._rest = b""
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        data = os.read(self._descriptor, 65536)
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._prober.stop()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "phase":
                self._prober.enter(rest)


async def _silent(endpoint: ApiEndpoint) -> str:
    """Why an address doesn't answer, or doesn't accept the credentials; "" when all is well."""
    now = asyncio.get_running_loop().time
    client = FreshClient(endpoint, "HTTP/1.1")
    outcome = await ask(client, _GET, deadline=now() + DEADLINE_SECONDS, monotonic=now, sleep=asyncio.sleep)
    through = f" through the proxy {endpoint.proxy.url}" if endpoint.proxy else ""
    return "" if outcome.ok else f"https://{endpoint.authority}{through}: {outcome.error}"


async def _probe(endpoints: Sequence[ApiEndpoint], options: Options) -> int:
    if options.must_answer:
        silent = [text for text in await asyncio.gather(*map(_silent, endpoints)) if text]
        if silent:
            sys.stderr.write("a first request failed: " + "; ".join(silent))
            return UsageError.exit_code
    prober = Prober(endpoints, options.requests_per_second)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, prober.stop)
    _Orders(prober, sys.stdin.fileno())
    await prober.run(sys.stdout)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run until stdin ends or SIGTERM; returns 2, with a message on stderr, for an unusable kubeconfig or address.

    An address is unusable, too, if it must answer and doesn't.
    """
    given = json.loads(arguments[0])
    options = Options(**{**given, "addresses": tuple(given.get("addresses", ()))})
    try:
        own = read_endpoint(Path(options.kubeconfig), options.context)
        endpoints = [own, *(own.at(address) for address in options.addresses)]
    except UpgraderError as error:
        sys.stderr.write(error.message)
        return error.exit_code
    return asyncio.run(_probe(endpoints, options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
