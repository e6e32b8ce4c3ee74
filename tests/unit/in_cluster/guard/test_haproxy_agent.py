"""The agent as a whole, on a HAProxy in memory: rounds, and what happens when something fails in one."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any, Literal

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT
from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.commands.haproxy_agent import haproxy_agent
from upgrader.in_cluster.guard.core.load_balancer import DETACHING, Agents
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, LoadBalancerAway
from upgrader.in_cluster.guard.roles.haproxy_agent import NODES, HAProxyAgent
from upgrader.in_cluster.guard.runtime.haproxy import HAProxy, HAProxyServer

UP = HAProxyServer("ingress", "n", False, False, 0, "UP", "L7OK")


class FakeHAProxy(HAProxy):
    """Servers in memory; while `away`, it doesn't answer."""

    def __init__(self, *names: str, backends: tuple[str, ...] = ("ingress",)) -> None:
        super().__init__("/run/haproxy/admin.sock")
        self.there = {(b, n): replace(UP, backend=b, name=n) for b in backends for n in names}
        self.away = False
        self.changes: list[str] = []

    async def servers(self) -> list[HAProxyServer]:
        self._check()
        return list(self.there.values())

    async def set_state(self, server: HAProxyServer, state: Literal["drain", "ready"]) -> None:
        self._check()
        self.changes.append(f"{server.backend}/{server.name} {state}")
        self.set(server.backend, server.name, drained=state == "drain")

    def set(self, backend: str, name: str, **changes: Any) -> None:
        """Whatever else changes it."""
        self.there[backend, name] = replace(self.there[backend, name], **changes)

    def _check(self) -> None:
        if self.away:
            raise LoadBalancerAway("/run/haproxy/admin.sock: Connection refused")


class World:
    """Nodes, load balancers, and an agent that sees each change at once."""

    def __init__(self, *proxies: FakeHAProxy, backends: tuple[str, ...] = ()) -> None:
        self.api, self.time = FakeApi(), 1000.0
        self.proxies, self.backends = proxies, backends
        for name in ("a", "b"):
            self.api.put(NODES, {"metadata": {"name": name, "annotations": {"other": "x"}}})
        self.start()

    def start(self) -> None:
        """Anew, with nothing remembered."""
        self.agent = HAProxyAgent(
            self.api, self.proxies, self.backends, 30, monotonic=lambda: self.time, now=lambda: self.time
        )

    def annotate(self, name: str = "a", **changes: str | None) -> None:
        """`asked`, `out`: as somebody else does."""
        found = self.api.objects[NODES.path("", name)]
        keys = {"asked": DETACHMENT, "out": DETACHED}
        kept = {**found["metadata"]["annotations"], **{keys[key]: text for key, text in changes.items()}}
        kept = {key: text for key, text in kept.items() if text is not None}
        self.api.put(NODES, {**found, "metadata": {**found["metadata"], "annotations": kept}})

    def rounds(self, count: int = 1, seconds: float = 1.0) -> float:
        """Some, each with a cache that is up to date; when the last one wants the next."""
        again = 0.0

        async def run() -> None:
            nonlocal again
            for _ in range(count):
                await self.agent.nodes._list()
                again = await self.agent.round()
                self.time += seconds

        asyncio.run(run())
        return again

    def noted(self, name: str = "a") -> dict[str, str]:
        """The Node's annotations of the contract."""
        found = self.api.objects[NODES.path("", name)]["metadata"]["annotations"]
        return {key: text for key, text in found.items() if key != "other"}


def test_out_and_back() -> None:
    """The first thing that is written is that it has begun; other annotations, and other nodes, stay as they are."""
    proxy = FakeHAProxy("a", "b")
    world = World(proxy)
    assert world.rounds() == 30, "nothing to do"
    world.annotate(asked="true")
    assert world.rounds() == 1
    assert world.noted() == {DETACHMENT: "true", DETACHING: "true"} and not proxy.changes
    assert world.rounds() < 1 and proxy.changes == ["ingress/a drain"]
    world.rounds()
    assert world.noted()[DETACHED] == timestamp(1003)
    world.annotate(asked=None)
    world.rounds(2)
    assert proxy.changes == ["ingress/a drain", "ingress/a ready"]
    assert world.noted() == {ATTACHED: timestamp(1005)} and world.noted("b") == {}
    assert world.rounds() == 30


def test_the_grace_period_begins_when_all_servers_are_out() -> None:
    """And anew where one of them was in again meanwhile."""
    proxy = FakeHAProxy("a", "b", backends=("http", "https"))
    for backend in ("http", "https"):
        proxy.set(backend, "a", sessions=2)
    world = World(proxy)
    world.annotate(asked="true")
    world.rounds(3)
    world.rounds(20)
    assert DETACHED not in world.noted()
    proxy.set("https", "a", drained=False)
    world.rounds(25)
    assert DETACHED not in world.noted()
    world.rounds(10)
    assert DETACHED in world.noted()
    assert proxy.changes == ["http/a drain", "https/a drain", "https/a drain"]


def test_an_answer_is_that_of_all_load_balancers() -> None:
    """One that has sessions, or can't be asked, keeps the node from being called out."""
    one, two = FakeHAProxy("a", "b"), FakeHAProxy("a", "b")
    two.set("ingress", "a", sessions=1)
    world = World(one, two)
    world.annotate(asked="true")
    world.rounds(5)
    assert one.changes == two.changes == ["ingress/a drain"] and DETACHED not in world.noted()
    two.set("ingress", "a", sessions=0)
    two.away = True
    world.rounds(5)
    assert DETACHED not in world.noted()
    two.away = False
    world.rounds(2)
    assert DETACHED in world.noted()


def test_the_last_one_that_serves_stays_in(caplog: pytest.LogCaptureFixture) -> None:
    """Also where two are asked for in one round; the other one goes when the first is back."""
    proxy = FakeHAProxy("a", "b")
    world = World(proxy)
    for name in ("a", "b"):
        world.annotate(name, asked="true")
    world.rounds(5)
    assert proxy.changes == ["ingress/a drain"]
    assert DETACHED in world.noted("a") and DETACHED not in world.noted("b")
    told = "waiting for another server to be up besides ingress/b of /run/haproxy/admin.sock"
    assert [record.message for record in caplog.records] == [told]
    world.annotate("a", asked=None)
    world.rounds(5)
    assert proxy.changes == ["ingress/a drain", "ingress/a ready", "ingress/b drain"]
    proxy.set("ingress", "a", status="DOWN")
    proxy.set("ingress", "b", drained=False)
    world.rounds(5)
    assert proxy.changes[3:] == []


def test_other_backends_are_left_alone() -> None:
    """Where backends are named, a server of another one may have a node's name by chance."""
    proxy = FakeHAProxy("a", "b", backends=("ingress", "other"))
    world = World(proxy, backends=("ingress",))
    world.annotate(asked="true")
    world.rounds(4)
    assert proxy.changes == ["ingress/a drain"] and DETACHED in world.noted()


def test_agents_of_two_machines_answer_together() -> None:
    """Each with a HAProxy of its own: the first one's word is no answer, and each brings back what it has drained."""
    world, other = World(FakeHAProxy("a", "c")), FakeHAProxy("a", "c")
    agents = [
        HAProxyAgent(world.api, [proxy], (), 30, agents=names, monotonic=lambda: 0.0, now=lambda: 9.0)
        for proxy, names in ((world.proxies[0], Agents("lb-1", ("lb-2",))), (other, Agents("lb-2", ("lb-1",))))
    ]

    def rounds(agent: HAProxyAgent) -> dict[str, str]:
        world.agent = agent
        world.rounds(6)
        found = world.api.objects[NODES.path("", "a")]["metadata"]["annotations"]
        return dict(found)

    world.annotate(asked="true")
    assert DETACHED not in rounds(agents[0]) and world.proxies[0].changes == ["ingress/a drain"]
    assert DETACHED in rounds(agents[1]) and other.changes == ["ingress/a drain"]
    world.annotate(asked=None)
    assert ATTACHED not in rounds(agents[0])
    assert rounds(agents[1]).keys() == {"other", ATTACHED}
    assert world.proxies[0].changes[-1] == other.changes[-1] == "ingress/a ready"


@pytest.mark.parametrize(
    "given", [["-agent.name=lb-1"], ["-agent.peer=lb-2"], ["-agent.name=a", "-agent.peer=a"], ["-agent.name=A/b"]]
)
def test_names_that_say_nothing(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A name without those of the others, or that is no part of an annotation's, is wrong usage."""
    with pytest.raises(SystemExit) as ended:
        haproxy_agent(given)
    assert ended.value.code == 2 and "-agent.name" in capsys.readouterr().err


def test_a_socket_that_is_gone_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not each second; and its grace period begins anew, as nobody knows what it did meanwhile."""
    proxy = FakeHAProxy("a", "b")
    proxy.set("ingress", "a", sessions=1)
    world = World(proxy)
    world.annotate(asked="true")
    world.rounds(20)
    proxy.away = True
    caplog.clear()
    with caplog.at_level(logging.WARNING, "guard"):
        assert world.rounds(5) == 1
    assert [record.message for record in caplog.records] == [
        "HAProxy can't be queried: /run/haproxy/admin.sock: Connection refused"
    ]
    proxy.away = False
    world.rounds(25)
    assert DETACHED not in world.noted()
    world.rounds(10)
    assert DETACHED in world.noted()


def test_a_node_without_a_server_is_told_of_and_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    """Its name may be misspelt in HAProxy's configuration."""
    world = World(FakeHAProxy("b"))
    world.annotate(asked="true")
    with caplog.at_level(logging.WARNING, "guard"):
        world.rounds(5)
    assert [record.message for record in caplog.records] == ["waiting for a server with the node's name"]
    assert world.noted() == {DETACHMENT: "true"}


@pytest.mark.parametrize("error", [ApiAway("no answer"), ApiRefused("may not patch nodes", 403), Conflict("old", 409)])
def test_an_answer_that_could_not_be_written_is_written_later(error: Exception) -> None:
    """Whatever kept it from that; other nodes don't wait for it."""
    proxy = FakeHAProxy("a", "b")
    world = World(proxy)
    world.annotate(asked="true")
    proxy.there["ingress", "c"] = replace(UP, name="c")
    world.annotate("b", asked="true")
    world.api.next_answer("patch", error, None)
    world.rounds()
    assert DETACHING not in world.noted() and DETACHING in world.noted("b")
    world.rounds(4)
    assert DETACHED in world.noted() and DETACHED in world.noted("b")


def test_a_wish_that_is_taken_back_is_never_answered() -> None:
    """The Node has changed since it was read: the answer is a conflict, and what was drained is ready again."""
    proxy = FakeHAProxy("a", "b")
    world = World(proxy)
    world.annotate(asked="true")
    world.rounds(2)

    async def run() -> None:
        await world.agent.nodes._list()
        world.annotate(asked=None)
        await world.agent.round()

    asyncio.run(run())
    assert DETACHED not in world.noted()
    world.rounds(3)
    assert proxy.changes == ["ingress/a drain", "ingress/a ready"] and DETACHED not in world.noted()


def test_killed_anywhere_the_next_one_goes_on() -> None:
    """With nothing but the Node's annotations and HAProxy's state: out, and back."""
    for kill in range(1, 8):
        proxy = FakeHAProxy("a", "b")
        world = World(proxy)
        world.annotate(asked="true")
        world.rounds(kill)
        world.start()
        world.rounds(4)
        assert DETACHED in world.noted() and proxy.there["ingress", "a"].drained
        world.annotate(asked=None)
        world.rounds(kill)
        world.start()
        world.rounds(4)
        assert world.noted().keys() == {ATTACHED} and not proxy.there["ingress", "a"].drained


def test_it_runs_by_itself() -> None:
    """The cache is followed, and each event is looked at."""
    proxy = FakeHAProxy("a", "b")
    world = World(proxy)

    async def run() -> None:
        task = asyncio.create_task(world.agent.run())
        await world.agent.nodes.synced.wait()
        world.annotate(asked="true")
        await world.api.events.put({"type": "MODIFIED", "object": world.api.objects[NODES.path("", "a")]})
        while DETACHING not in world.noted():
            await asyncio.sleep(0)
        task.cancel()

    async def in_time() -> None:
        async with asyncio.timeout(10):
            await run()

    asyncio.run(in_time())
