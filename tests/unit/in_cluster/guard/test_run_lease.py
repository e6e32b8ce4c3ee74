"""The Lease of a run, as guard reads it, and the groups that have begun, as the leader notes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.engine.locks import lease_object
from upgrader.in_cluster.guard.core import run_lease as core
from upgrader.in_cluster.guard.core.rollout import Hold
from upgrader.in_cluster.guard.guard_errors import ApiAway, Conflict
from upgrader.in_cluster.guard.roles import run_lease as module
from upgrader.in_cluster.guard.roles.rolling_groups import ROLLING, RollingGroups
from upgrader.in_cluster.guard.roles.run_lease import LEASES, RunLease


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def put_lease(api: FakeApi, renewed: str = "t1", **notes: str) -> None:
    """A run's."""
    spec = {"holderIdentity": "anna", "renewTime": renewed, "leaseDurationSeconds": 60}
    api.put(LEASES, {"metadata": {"name": "upgrader", "annotations": notes}, "spec": spec}, "kube-system")


def run(test: Callable[[FakeApi, Time, RunLease], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        api, time = FakeApi(), Time()
        await test(api, time, RunLease(api, clock=time, sleep=time.sleep))

    asyncio.run(whole())


def test_it_is_the_lease_that_runs_take() -> None:
    """Name, namespace and annotations are said twice, as guard imports nothing of the rest."""
    assert (module._NAMESPACE, module._NAME) == (lease_object.NAMESPACE, lease_object.NAME)
    assert (core.GROUPS, core._RUN) == (lease_object.GROUPS, lease_object.RUN)
    assert core._DEFAULT_SECONDS == lease_object.LEASE_SECONDS


def test_a_run_that_died_holds_until_its_time_is_over() -> None:
    """Read every five seconds, with no change."""

    async def test(api: FakeApi, time: Time, lease: RunLease) -> None:
        assert lease.last is None
        put_lease(api)
        task = asyncio.ensure_future(lease.run())
        while time.now < 60:
            await asyncio.sleep(0)
            assert time.now < 10 or time.now >= 60 or lease.last == Hold("anna")
        while time.now < 70:
            await asyncio.sleep(0)
        assert lease.last is None and await lease.look() is None
        task.cancel()

    run(test)


def test_what_cannot_be_read_is_watched_anew() -> None:
    """The error goes to who asked, and the time before it doesn't count."""

    async def test(api: FakeApi, time: Time, lease: RunLease) -> None:
        put_lease(api)
        for _ in range(11):
            await lease.look()
            time.now += 5
        api.next_answer("get", ApiAway("GET: refused"))
        with pytest.raises(ApiAway, match="refused"):
            await lease.look()
        assert lease.last is None
        time.now += 5
        assert await lease.look() == Hold("anna")

    run(test)


def test_a_lease_that_cannot_be_read_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not every five seconds; and again when it fails for another reason."""

    async def test(api: FakeApi, time: Time, lease: RunLease) -> None:
        away = [ApiAway(f"GET: {why}") for why in ("forbidden", "forbidden", "refused")]
        api.next_answer("get", *away, None, away[0])
        task = asyncio.ensure_future(lease.run())
        while time.now < 30:
            await asyncio.sleep(0)
        task.cancel()

    with caplog.at_level(logging.WARNING):
        run(test)
    said = [getattr(record, "reason", "") for record in caplog.records]
    assert said == ["GET: forbidden", "GET: refused", "GET: forbidden"]


def rolling(test: Callable[[FakeApi, RollingGroups], Awaitable[None]], **notes: str) -> Any:
    """With the Lease of the leader; its annotations afterwards."""

    async def whole() -> Any:
        api = FakeApi()
        api.put(LEASES, {"metadata": {"name": "guard-rollout", "annotations": notes}, "spec": {"x": 1}}, "ops")
        await test(api, RollingGroups(api, "ops", "guard-rollout"))
        found = api.objects[LEASES.path("ops", "guard-rollout")]
        assert found["spec"] == {"x": 1}
        return found["metadata"]["annotations"]

    return asyncio.run(whole())


def test_groups_are_noted_beside_what_else_is_there() -> None:
    """Once each, and whoever renews the Lease at the same time is first."""

    async def test(api: FakeApi, groups: RollingGroups) -> None:
        await groups.add("shop/db")
        api.next_answer("replace", Conflict("modified", 409))
        await groups.add("shop/cache")
        writes = len([call for call in api.calls if call.startswith("replace")])
        await groups.add("shop/db")
        await groups.remove("shop/other")
        assert len([call for call in api.calls if call.startswith("replace")]) == writes
        await groups.remove("shop/db")
        assert await groups.all() == {"shop/cache"}

    assert rolling(test, other="stays") == {ROLLING: "shop/cache", "other": "stays"}


def test_what_another_leader_noted_is_read_again() -> None:
    """Once it is known that another one may have led."""

    async def test(api: FakeApi, groups: RollingGroups) -> None:
        assert await groups.all() == {"shop/db"}
        await RollingGroups(api, "ops", "guard-rollout").add("shop/cache")
        assert await groups.all() == {"shop/db"}
        groups.forget()
        assert await groups.all() == {"shop/db", "shop/cache"}

    rolling(test, **{ROLLING: "shop/db"})


def test_what_cannot_be_noted_is_an_error() -> None:
    """The Lease is gone, or somebody always is first: nothing is begun then."""

    async def test(api: FakeApi, groups: RollingGroups) -> None:
        api.next_answer("replace", *[Conflict("modified", 409)] * 5)
        with pytest.raises(Conflict):
            await groups.add("shop/db")
        with pytest.raises(ApiAway, match="ops/other doesn't exist"):
            await RollingGroups(api, "ops", "other").all()

    assert rolling(test) == {}
