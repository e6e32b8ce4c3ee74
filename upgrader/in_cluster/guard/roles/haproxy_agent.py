"""The agent of a load balancer: takes nodes out of HAProxy and returns them, as their annotations request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from upgrader.in_cluster.guard.core.load_balancer import ALONE, Agents, Server, concerned, turn
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, LoadBalancerAway, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.haproxy import HAProxy, HAProxyServer
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["NODES", "HAProxyAgent"]

NODES = Resource("v1", "nodes", namespaced=False)
_POLL_SECONDS = 1.0
"""Interval while a node is out, or on its way: sessions end and checks succeed without an event, and a restarted
HAProxy may have forgotten that a server is drained.
"""
_SOON_SECONDS, _IDLE_SECONDS = 0.1, 30.0

Placed = tuple[HAProxy, HAProxyServer]
Backend = tuple[str, str]
"""The socket of its HAProxy, and its name."""


class HAProxyAgent:
    """For one load balancer of one or more HAProxies: an answer is valid for all of them, and for the other agents."""

    def __init__(
        self,
        api: Api,
        proxies: Sequence[HAProxy],
        backends: Collection[str],
        grace_seconds: float,
        *,
        agents: Agents = ALONE,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`backends`: those whose servers are nodes; if empty, every backend with a server that has a node's name.
        `agents`: this agent's name, and those of the other agents of the same load balancer.
        """
        self._api, self._proxies, self._backends, self._agents = api, proxies, frozenset(backends), agents
        self._grace_seconds, self._monotonic, self._now = grace_seconds, monotonic, now
        self._out_since: dict[str, float] = {}
        """Node → when all of its servers were first seen out, since the request."""
        self._told: dict[str, str] = {}
        self._changed = asyncio.Event()
        self.nodes = Informer(api, NODES, keep=_kept)
        self.nodes.tell(lambda *_: self._changed.set())

    async def run(self) -> None:
        """Follow the Nodes and do what they request, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            group.create_task(self._work())

    async def _work(self) -> None:
        await self.nodes.synced.wait()
        while True:
            self._changed.clear()
            seconds = await self.round()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.05)  # so that a burst of events causes at most twenty rounds a second

    async def round(self) -> float:
        """Check each node once; returns after how many seconds to check again if nothing changes."""
        nodes = {name: node for (_, name), node in self.nodes.objects.items()}
        there = {name: node for name, node in nodes.items() if concerned(_annotations(node), self._agents)}
        self._out_since = {name: since for name, since in self._out_since.items() if name in there}
        if not there:
            return _IDLE_SECONDS
        try:
            servers, serving = await self._servers(there)
        except LoadBalancerAway as error:
            # An unknown state is never reported; once HAProxy answers, the grace period begins again.
            self._out_since.clear()
            self._tell("", f"HAProxy can't be queried: {error}")
            return _POLL_SECONDS
        self._tell("", "")
        again = [await self._one(name, node, servers[name], serving) for name, node in there.items()]
        return min(again)

    async def _servers(self, names: Collection[str]) -> tuple[dict[str, list[Placed]], dict[Backend, set[str]]]:
        """The servers of each node; and which ones of a backend serve."""
        found: dict[str, list[Placed]] = {name: [] for name in names}
        serving: dict[Backend, set[str]] = {}
        for proxy in self._proxies:
            for server in await proxy.servers():
                if server.serves:
                    serving.setdefault((proxy.socket, server.backend), set()).add(server.name)
                if server.name in found and (not self._backends or server.backend in self._backends):
                    found[server.name].append((proxy, server))
        return found, serving

    async def _one(
        self, name: str, node: Object, placed: Sequence[Placed], serving: Mapping[Backend, set[str]]
    ) -> float:
        beside = [serving.get((proxy.socket, each.backend), set()) for proxy, each in placed]
        servers = [_server(*each, last=others == {name}) for each, others in zip(placed, beside, strict=True)]
        since = self._out_since.get(name)
        if all(each.drained or each.disabled for each in servers):
            since = self._out_since.setdefault(name, self._monotonic())
        else:
            self._out_since.pop(name, None)
            since = None
        out_for = None if since is None else self._monotonic() - since
        step = turn(_annotations(node), servers, out_for, self._grace_seconds, self._now(), self._agents)
        try:
            for number in step.drain:
                beside[number].discard(name)  # later nodes of this round can't rely on it
                await self._set(name, placed[number], "drain")
            for number in step.ready:
                await self._set(name, placed[number], "ready")
            if step.patch:
                await self._annotate(name, node, step.patch)
        except (LoadBalancerAway, ApiAway, ApiRefused) as error:
            self._tell(name, f"the node can't be processed: {error}")
            return _POLL_SECONDS
        sessions = sum(each.sessions for each in servers)
        self._tell(name, f"waiting for {step.waits_for}" if step.waits_for else "", sessions=sessions)
        return _SOON_SECONDS if step.drain or step.ready else _POLL_SECONDS

    async def _set(self, name: str, placed: Placed, state: Any) -> None:
        proxy, server = placed
        await proxy.set_state(server, state)
        LOG.info("server set", extra={"node": name, "server": _where(proxy, server), "state": state})

    async def _annotate(self, name: str, node: Object, changes: Mapping[str, str | None]) -> None:
        """Only for the Node as it was read: a late answer would count as the answer to the next request."""
        meta = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": dict(changes)}
        try:
            await self._api.patch(NODES, name, {"metadata": meta})
        except (Conflict, NotFound):
            return  # its new state is handled in the next round
        LOG.info("node annotated", extra={"node": name, "annotations": dict(changes)})

    def _tell(self, name: str, text: str, **more: object) -> None:
        """Log it once, until it changes."""
        if text and self._told.get(name) != text:
            LOG.warning(text, extra={"node": name, **more} if name else {})
        self._told[name] = text


def _kept(node: dict[str, Any]) -> Object:
    meta = node["metadata"]
    kept = {key: text for key, text in (meta.get("annotations") or {}).items() if key.startswith("node-detacher.")}
    return {"metadata": {"name": meta["name"], "resourceVersion": meta["resourceVersion"], "annotations": kept}}


def _annotations(node: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = node["metadata"].get("annotations") or {}
    return found


def _where(proxy: HAProxy, server: HAProxyServer) -> str:
    return f"{server.backend}/{server.name} of {proxy.socket}"


def _server(proxy: HAProxy, found: HAProxyServer, *, last: bool) -> Server:
    check = f"{found.status} {found.check}" if found.check else ""
    return Server(
        _where(proxy, found), found.drained, found.maintenance, found.sessions, found.good, check=check, last=last
    )
