"""`guard haproxy-agent FLAGS`: the agent that runs on a load balancer."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from upgrader.contract.times import duration_of
from upgrader.in_cluster.guard.commands.program import connected, until_signal, usage_error
from upgrader.in_cluster.guard.core.load_balancer import Agents
from upgrader.in_cluster.guard.guard_errors import GuardError
from upgrader.in_cluster.guard.logs import LOG, set_up
from upgrader.in_cluster.guard.roles.haproxy_agent import HAProxyAgent
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import Connection
from upgrader.in_cluster.guard.runtime.haproxy import HAProxy

__all__ = ["haproxy_agent"]


def haproxy_agent(arguments: Sequence[str]) -> int:
    """Exit code: 0 ended by a signal, 1 it could not go on, 2 usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    agents = Agents(given.agent or "", tuple(dict.fromkeys(given.peers)))
    if bool(agents.name) != bool(agents.others) or agents.name in agents.others:
        parser.error("set both -agent.name (this agent) and -agent.peer (each other agent), or neither")
    try:
        connection = connected(given.kubeconfig)
    except GuardError as error:
        return usage_error("guard haproxy-agent", error)
    set_up({"warn": "warning"}.get(given.log_level, given.log_level))
    return until_signal("guard haproxy-agent", lambda stop: _serve(connection, given, agents, stop))


async def _serve(connection: Connection, given: argparse.Namespace, agents: Agents, stop: asyncio.Event) -> None:
    async with Api(connection) as api, asyncio.TaskGroup() as group:
        proxies = [HAProxy(socket) for socket in given.sockets or ["/run/haproxy/admin.sock"]]
        agent = HAProxyAgent(api, proxies, given.backends, given.grace, agents=agents)
        task = group.create_task(agent.run())
        LOG.info("started", extra={"sockets": [each.socket for each in proxies], "backends": given.backends})
        await stop.wait()
        LOG.info("ending")
        task.cancel()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="guard haproxy-agent",
        description="Detaches nodes from HAProxy, and attaches them again.",
        allow_abbrev=False,
    )
    levels = ("debug", "info", "warn", "error")
    for name, dest, more in (
        ("log.level", "log_level", {"default": "info", "choices": levels, "help": "log level"}),
        (
            "haproxy.socket",
            "sockets",
            {
                "action": "append",
                "default": [],
                "metavar": "FILE",
                "help": "HAProxy's runtime socket; can be repeated: a node is detached when all have drained it "
                "(default: /run/haproxy/admin.sock)",
            },
        ),
        (
            "haproxy.backend",
            "backends",
            {
                "action": "append",
                "default": [],
                "metavar": "NAME",
                "help": "a backend whose servers have the names of nodes; can be repeated (default: all backends)",
            },
        ),
        (
            "agent.name",
            "agent",
            {
                "type": _name,
                "metavar": "NAME",
                "help": "this agent's name (such as lb-1), if HAProxies on several machines share an address",
            },
        ),
        (
            "agent.peer",
            "peers",
            {
                "action": "append",
                "type": _name,
                "default": [],
                "metavar": "NAME",
                "help": "the name of another agent of that address; can be repeated: a node is detached when all have "
                "drained it",
            },
        ),
        (
            "grace-period",
            "grace",
            {
                "type": _seconds,
                "default": 30.0,
                "metavar": "30s",
                "help": "how long to wait for sessions to end before a node counts as detached anyway",
            },
        ),
        (
            "kubernetes.config-file",
            "kubeconfig",
            {"type": Path, "default": None, "metavar": "FILE", "help": "kubeconfig, outside a cluster"},
        ),
    ):
        parser.add_argument(f"-{name}", f"--{name}", dest=dest, **more)
    return parser


def _name(text: str) -> str:
    """A name that can end the name of an annotation."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text} is not a name of at most 40 lower-case letters, digits and hyphens")
    return text


def _seconds(text: str) -> float:
    seconds = duration_of(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 90s or 1h30m")
    return seconds
