"""The queue of what is to be looked at, and the end of who takes from it."""

from __future__ import annotations

import asyncio

from tests.unit.in_cluster.guard.test_haproxy_agent import FakeHAProxy, World
from upgrader.in_cluster.guard.runtime.work_queue import WorkQueue


async def steps(count: int = 20) -> None:
    """Of the loop: what is ready runs."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_who_takes_ends_although_something_comes() -> None:
    """A signal that arrives with an event isn't lost: the process would run until it is killed."""

    async def run() -> None:
        queue = WorkQueue[str]()
        queue.add("much later", 120)
        task = asyncio.create_task(queue.take())
        await steps()
        queue.add("later", 60)
        task.cancel()
        await steps()
        assert task.cancelled()

    asyncio.run(run())


def test_the_agent_of_a_load_balancer_ends_although_a_node_changes() -> None:
    """The same, where it waits for Nodes."""

    async def run() -> None:
        agent = World(FakeHAProxy("a")).agent
        agent.nodes.synced.set()
        task = asyncio.create_task(agent._work())
        await steps()
        agent._changed.set()
        task.cancel()
        await steps()
        assert task.cancelled()

    asyncio.run(run())
