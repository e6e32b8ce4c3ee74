"""Kubernetes Events: how many are written, and what is remembered of them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from testkit.memory import TracedMemory
from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.core.rollout import Event
from upgrader.in_cluster.guard.core.workloads import StatefulSet
from upgrader.in_cluster.guard.roles.event_recorder import EventRecorder


def told(about: str, message: str) -> Event:
    """About a StatefulSet of this name."""
    return Event(StatefulSet("shop", about, f"uid-{about}"), "Warning", "InvalidMaxUnavailable", message)


def test_an_object_gets_so_many_events_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """A tenant who changes an annotation every second, each time to another text of 256 KiB that an Event quotes, fills
    neither etcd nor the log nor guard's memory. Another object has its own Events, and both have more later.
    """
    api, seconds = FakeApi(), 0.0
    recorder = EventRecorder(api, lambda: seconds)

    async def run(about: str, count: int) -> int:
        api.calls.clear()
        for number in range(count):
            await recorder.record(told(about, f"{number}: {'x' * (256 << 10)}"))
        return len(api.calls)

    with caplog.at_level(logging.INFO, "guard"), TracedMemory() as memory:
        assert asyncio.run(run("db", 200)) == 25
        kept = memory.kept
    assert kept < 1 << 20 and sum(len(record.getMessage()) for record in caplog.records) < 64 << 10
    assert asyncio.run(run("other", 200)) == 25
    seconds = 601.0
    assert asyncio.run(run("db", 10)) == 10


def test_the_same_event_is_written_once_in_a_while() -> None:
    """Each reconciliation finds the same."""
    api, seconds = FakeApi(), 0.0
    recorder = EventRecorder(api, lambda: seconds)

    async def run() -> None:
        for _ in range(3):
            await recorder.record(told("db", "it is 7x"))

    asyncio.run(run())
    assert len(api.calls) == 1
    seconds = 601.0
    asyncio.run(run())
    assert len(api.calls) == 2
