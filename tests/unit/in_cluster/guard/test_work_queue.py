"""The queue of what is to be looked at, and the end of who takes from it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.in_cluster.guard.protector_world import protector, put, see
from tests.unit.in_cluster.guard.test_aggregator import World as Aggregating
from tests.unit.in_cluster.guard.test_aggregator import run as counting
from tests.unit.in_cluster.guard.test_generator import World as Generating
from tests.unit.in_cluster.guard.test_generator import deployment
from tests.unit.in_cluster.guard.test_generator import run as generating
from tests.unit.in_cluster.guard.test_haproxy_agent import FakeHAProxy, World
from tests.unit.in_cluster.guard.test_rollouts import World as Rolling
from tests.unit.in_cluster.guard.test_rollouts import lead, stateful_set
from tests.unit.in_cluster.guard.test_rollouts import pod as rolled
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS, Group, WorkloadCache
from upgrader.in_cluster.guard.runtime.informer import Key
from upgrader.in_cluster.guard.runtime.resource import Object, Resource
from upgrader.in_cluster.guard.runtime.work_queue import WorkQueue


async def steps(count: int = 20) -> None:
    """Of the loop: what is ready runs."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_who_takes_ends_although_something_comes() -> None:
    """A signal that arrives with an event isn't lost: the process would run until it is killed."""

    async def run() -> None:
        queue = WorkQueue[Key]()
        queue.add(("shop", "much later"), 120)
        task = asyncio.create_task(queue.take())
        await steps()
        queue.add(("shop", "later"), 60)
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


def test_namespaces_take_turns() -> None:
    """Of a namespace with a flood of changes one key is taken, and then one of each other, however late it was added;
    within a namespace the one that has been due for longest.
    """

    async def run() -> None:
        now = 0.0
        queue = WorkQueue[Key](lambda: now)
        for number in range(1000):
            now = number / 1000
            queue.add(("flood", str(number)))
        now = 1.0
        taken = [await queue.take()]
        queue.add(("shop", "later"), 60)
        queue.add(("shop", "web"))
        queue.add(("ops", "db"))
        taken += [await queue.take() for _ in range(4)]
        assert taken == [("flood", "0"), ("flood", "1"), ("shop", "web"), ("ops", "db"), ("flood", "2")]
        now = 61.0
        assert {await queue.take(), await queue.take()} == {("flood", "3"), ("shop", "later")}

    asyncio.run(run())


def test_a_namespace_that_is_looked_at_again_and_again_lets_each_other_one_in() -> None:
    """What is added again as soon as it was taken, as a protector that others write all the time, comes after them."""

    async def run() -> None:
        queue = WorkQueue[Key]()
        waiting = [(f"ns-{number}", "web") for number in range(10)]
        for key in (*(("flood", str(number)) for number in range(100)), *waiting):
            queue.add(key)
        taken = list[Key]()
        while not set(waiting) <= set(taken):
            taken.append(await queue.take())
            if taken[-1][0] == "flood":
                queue.add(taken[-1])
        assert len(taken) <= 12

    asyncio.run(run())


def test_a_namespace_with_a_flood_of_changes_keeps_no_other_one_waiting() -> None:
    """Of 300 protectors of one namespace that are due, a few are counted before the only one of another namespace."""

    async def test(world: Aggregating) -> None:
        for number in range(300):
            put(world.api, protector(name=f"flood-{number}"))
        world.api.put(POD_PROTECTORS, protector(), "zoo")
        await see(world.cache)
        mine = f"replace {POD_PROTECTORS.path('zoo', 'web')}"
        await lead(world.role._work, lambda: mine in world.api.calls)
        written = [call for call in world.api.calls if call.startswith("replace ")]
        assert written.index(mine) < 20

    counting(test)


def test_one_namespace_holds_no_more_than_is_free() -> None:
    """Of eight places, the first namespace gets four, however much is due there, and four others one each; the place
    that is free again goes to the one that holds none.
    """

    async def run() -> None:
        queue = WorkQueue[Key](at_once=8)
        for namespace in ("a", "b", "c", "d", "e", "f"):
            for number in range(9):
                queue.add((namespace, str(number)))
            if namespace == "a":
                taken = [await queue.take() for _ in range(4)]
                waiting = asyncio.create_task(queue.take())
                await steps()
                assert not waiting.done()
        for _ in range(4):
            await steps()
            taken.append(waiting.result())
            waiting = asyncio.create_task(queue.take())
        await steps()
        assert [namespace for namespace, _ in taken] == [*"aaaa", *"bcde"]
        assert not waiting.done()
        queue.done(taken[0])
        await steps()
        assert waiting.result() == ("f", "0")

    asyncio.run(run())


def test_a_key_is_looked_at_once_at_a_time() -> None:
    """What changes meanwhile is looked at again afterwards; others of its namespace don't wait for it."""

    async def run() -> None:
        queue, begun, ended = WorkQueue[Key](at_once=8), list[Key](), asyncio.Event()

        async def look(key: Key) -> None:
            begun.append(key)
            await ended.wait()

        task = asyncio.create_task(queue.each(look))
        for _ in range(3):
            queue.add(("shop", "web"))
            await steps()
        queue.add(("shop", "db"))
        await steps()
        assert begun == [("shop", "web"), ("shop", "db")]
        ended.set()
        await steps()
        assert begun == [("shop", "web"), ("shop", "db"), ("shop", "web")]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_a_group_whose_look_does_not_end_keeps_no_other_one_waiting() -> None:
    """Its pods are asked whether they are prepared, say, and don't answer: another namespace's group is rolled out
    meanwhile, and so is another one of the same namespace.
    """

    async def run() -> None:
        world = Rolling()
        for namespace, group in (("shop", "other"), ("zoo", "db")):
            cache = WorkloadCache(world.api, namespace, world.rollouts._queue.add)
            world.rollouts.caches.setdefault(namespace, cache)
            for each in (stateful_set(f"{group}-a"), rolled(f"{group}-a")):
                each["metadata"]["labels"]["rollout-group"] = group
                world.api.put(STATEFUL_SETS if "template" in each["spec"] else PODS, each, namespace)
        for cache in world.rollouts.caches.values():
            for informer in cache.informers:
                await informer._list()
        plain = world.rollouts._reconcile

        async def reconcile(group: Group) -> bool:
            if group == ("shop", "db"):
                await asyncio.Event().wait()
            return await plain(group)

        world.rollouts._reconcile = reconcile  # type: ignore[method-assign]
        await lead(world.rollouts._work, lambda: len(world.done("delete")) == 2)
        assert sorted(world.done("delete")) == ["db-a-0", "other-a-0"]

    asyncio.run(run())


def test_a_deployment_whose_look_does_not_end_keeps_no_other_one_waiting() -> None:
    """As where a webhook of others that is asked about one namespace's objects doesn't answer."""

    async def test(world: Generating) -> None:
        plain = world.role._reconcile

        async def reconcile(key: Key) -> None:
            if key == ("shop", "slow"):
                await asyncio.Event().wait()
            await plain(key)

        world.role._reconcile = reconcile  # type: ignore[method-assign]
        for name in ("slow", "web"):
            found = deployment()
            found["metadata"]["name"] = name
            world.put(found)
        await see(world.cache)
        for informer in world.role.deployments:
            await informer._list()
        made = f"create {POD_PROTECTORS.path('shop', 'deployment-web')}"
        await lead(world.role._work, lambda: made in world.api.calls)
        assert made in world.api.calls

    generating(test)


def test_looks_of_one_namespace_that_do_not_end_keep_no_other_one_waiting() -> None:
    """Its API server, or a list of its pods, may take until a deadline: some of what is looked at together is left for
    the protectors of other namespaces, also where another one's looks don't end either. The next time that this replica
    leads, all places are free.
    """

    async def test(world: Aggregating) -> None:
        plain, slow = world.api.replace, list[str]()

        async def replace(resource: Resource, manifest: Object, namespace: str = "", **given: Any) -> Object:
            if namespace != "zoo":
                slow.append(namespace)
                await asyncio.Event().wait()
            return await plain(resource, manifest, namespace, **given)

        world.api.replace = replace  # type: ignore[method-assign]
        for number in range(20):
            for namespace in ("flood", "shop"):
                world.api.put(POD_PROTECTORS, protector(name=f"slow-{number}"), namespace)
        await see(world.cache)
        task = asyncio.create_task(world.role._work())
        await steps(200)
        world.api.put(POD_PROTECTORS, protector(), "zoo")
        await see(world.cache)
        world.role._queue.add(("zoo", "web"))
        await steps(200)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert set(slow) == {"flood", "shop"} and len(slow) < 8
        assert f"replace {POD_PROTECTORS.path('zoo', 'web')}" in world.api.calls
        slow.clear()
        await lead(world.role._work, lambda: len(set(slow)) == 2)
        assert set(slow) == {"flood", "shop"}

    counting(test)
