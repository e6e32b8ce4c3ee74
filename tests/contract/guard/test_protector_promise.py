"""A PodProtector's promise on a real API server, with what broke it once: a watch that tells nothing, and clocks."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from testkit.command import skewed_clock
from testkit.guard_process import GuardProcess, guard_process
from testkit.waiting import stretched
from tests.contract.checking import merge
from tests.contract.guard.conftest import Pair
from tests.contract.guard.protected import PODS, Protected, becomes, bundle_of, deleted, guarded, install_definition
from tests.contract.guard.test_protector import FEW, wait_asked
from tests.contract.guard.webhooks import applied
from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.roles.aggregator import Aggregator
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS as CELL_PODS
from upgrader.in_cluster.guard.roles.protector_cache import ProtectorCache
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import by_kubeconfig
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics
from upgrader.in_cluster.guard.runtime.resource import Resource

MANY, LEAST = 15, 5
FASTER = 20.0
"""So much faster passes the minute after which an aggregator takes what was allowed for done or refused."""


@pytest.fixture
def app(pair: Pair) -> Iterator[Protected]:
    """A protector of one cell, to be made by the test, and its pods."""
    install_definition(pair.kube)
    found = Protected(pair.kube, {"one": pair.kube})
    yield found
    found.remove()


@contextmanager
def answering(pair: Pair, folder: Path, environment: Mapping[str, str]) -> Iterator[GuardProcess]:
    """A webhook that the API server asks."""
    with ExitStack() as stack:
        process = guard_process(folder, pair.kubeconfig, "-protector.cells=one", environment=environment)
        guard = stack.enter_context(process)
        guard.wait_ready()
        name = stack.enter_context(applied(pair.kube, guarded(guard.url("/protector/one"))))
        becomes("the authority to be injected", lambda: bundle_of(pair.kube, name) != "", 60)
        wait_asked(pair.kube, guard)
        yield guard


class Muted(Api):
    """Whose watches of pods end in good order and tell nothing, once `silent` is set."""

    silent = threading.Event()

    async def watch(
        self, resource: Resource, namespace: str, query: Mapping[str, str], *, version: str, seconds: int
    ) -> AsyncIterator[dict[str, Any]]:
        pods = resource == CELL_PODS
        events = super().watch(resource, namespace, query, version=version, seconds=2 if pods else seconds)
        async with aclosing(cast(AsyncGenerator[dict[str, Any], None], events)) as told:
            async for event in told:
                if pods and self.silent.is_set():
                    break
                yield event
        if pods:
            await asyncio.sleep(1.1)  # what ends sooner is taken for a server that stops


@contextmanager
def muted_aggregator(pair: Pair) -> Iterator[Muted]:
    """One in a thread of this process, whose minutes are short."""
    connection, ended = by_kubeconfig(pair.kubeconfig), threading.Event()
    api = Muted(connection)
    api.silent = threading.Event()

    async def counts() -> None:
        async with api:
            cache, metrics = ProtectorCache(api, [], Tuning()), ProtectorMetrics(Metrics())
            election = Leadership(api, "ops", f"muted-{uuid.uuid4().hex[:6]}", "me")
            role = Aggregator(api, api, cache, "one", [], election, metrics, clock=lambda: time.monotonic() * FASTER)
            parts = [role.run, *(each.run for each in cache.informers)]
            tasks = [asyncio.ensure_future(run()) for run in parts]
            while not ended.is_set():
                await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: asyncio.run(counts()))
        try:
            yield api
        finally:
            ended.set()
            running.result(timeout=stretched(60))


def left(app: Protected) -> int:
    """How many pods there are."""
    return len(app.core.list(PODS, "shop", labels=f"app={app.name}"))


def delete_all(app: Protected, again: Callable[[], bool]) -> Sequence[int]:
    """Ask for each pod's deletion, and again as long as `again` says so; how many were left after each time."""
    seen = []
    while True:
        for number in range(MANY):
            deleted(app.core, f"{app.name}-{number}")
        seen.append(left(app))
        if not again():
            return seen


def test_a_watch_that_tells_nothing_takes_no_pod_too_many(pair: Pair, app: Protected, tmp_path: Path) -> None:
    """The aggregator's watch is cut in good order, again and again, and what is allowed is put together: 10 of 15 go,
    while an aggregator that took silence for news would count those that are gone, and all would go.
    """
    with muted_aggregator(pair) as api, answering(pair, tmp_path, {}):
        app.create(LEAST, compactThreshold=3)
        app.pods(one=MANY)
        app.ready(one=MANY)
        app.wait(MANY, MANY)
        api.silent.set()
        until = time.monotonic() + 4 * 60 / FASTER
        seen = delete_all(app, lambda: time.monotonic() < until)
        assert min(seen) >= LEAST, seen
        app.wait(LEAST, LEAST)
        assert left(app) == LEAST


@pytest.mark.parametrize("behind", [300.0])
def test_a_webhook_whose_clock_is_behind_takes_no_pod_too_many(
    pair: Pair, app: Protected, tmp_path: Path, behind: float
) -> None:
    """Five minutes, with minReadySeconds 3: by its clock all pods are too young to count, and all would go."""
    flags = ("-roles=aggregator", "-protector.cell=one")
    with ExitStack() as stack:
        stack.enter_context(guard_process(tmp_path / "counts", pair.kubeconfig, *flags))
        stack.enter_context(answering(pair, tmp_path / "answers", skewed_clock(-behind)))
        app.create(LEAST, seconds=3)
        app.pods(one=MANY)
        app.wait(MANY, 0)
        app.ready(one=MANY)
        app.wait(MANY, MANY)
        until = time.monotonic() + 5
        seen = delete_all(app, lambda: time.monotonic() < until)
        assert min(seen) == seen[-1] == LEAST, seen


def test_what_another_selector_has_counted_lets_no_pod_go(pair: Pair, app: Protected, tmp_path: Path) -> None:
    """15 pods are counted, the aggregator is stopped, and the PodProtector then selects 6 other pods, of which 5 must
    stay: of these, none goes before an aggregator has counted them, and one afterwards.
    """
    flags = ("-roles=aggregator", "-protector.cell=one")
    others = Protected(pair.kube, app.cells)
    with answering(pair, tmp_path / "answers", {}):
        with guard_process(tmp_path / "counts", pair.kubeconfig, *flags):
            app.create(LEAST)
            app.pods(one=MANY)
            app.ready(one=MANY)
            app.wait(MANY, MANY)
        others.pods(one=LEAST + 1)
        others.ready(one=LEAST + 1)
        path = f"/apis/podseidon.kubewharf.io/v1alpha1/namespaces/shop/podprotectors/{app.name}"
        merge(pair.kube, path, {"spec": {"selector": {"matchLabels": {"app": others.name}}}})
        becomes("the webhook to refuse", lambda: FEW in deleted(pair.kube, f"{others.name}-0", dry_run=True), 60)
        with guard_process(tmp_path / "counts again", pair.kubeconfig, *flags):
            app.wait(LEAST + 1, LEAST + 1)
        answers = [deleted(pair.kube, f"{others.name}-{number}") for number in range(LEAST + 1)]
        assert answers.count("") == 1 and left(others) == LEAST, answers
    for each in (app, others):
        each.remove()
