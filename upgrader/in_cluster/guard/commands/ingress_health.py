"""`guard ingress-health FLAGS`: answers on a node's port, for the load balancer, whether the node may get traffic."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from upgrader.in_cluster.guard.commands.program import connected, until_signal, usage_error
from upgrader.in_cluster.guard.core.ingress import DUE
from upgrader.in_cluster.guard.guard_errors import GuardError
from upgrader.in_cluster.guard.logs import LOG, set_up
from upgrader.in_cluster.guard.roles.ingress_health import IngressHealth
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import Connection
from upgrader.in_cluster.guard.runtime.http_servers import listening

__all__ = ["ingress_health"]


def ingress_health(arguments: Sequence[str]) -> int:
    """Exit code: 0 ended by a signal, 1 it could not go on, 2 usage."""
    given = _parser().parse_args(arguments)
    try:
        connection = connected(given.kubeconfig)
    except GuardError as error:
        return usage_error("guard ingress-health", error)
    set_up({"warn": "warning"}.get(given.log_level, given.log_level))
    return until_signal("guard ingress-health", lambda stop: _serve(connection, given, stop))


async def _serve(connection: Connection, given: argparse.Namespace, stop: asyncio.Event) -> None:
    async with Api(connection) as api, asyncio.TaskGroup() as group:
        namespace, name = given.ingress
        health = IngressHealth(api, namespace, name, given.node, given.due)
        async with listening(health.app(), given.port) as port:
            task = group.create_task(health.informer.run())
            LOG.info("started", extra={"port": port, "node": given.node, "ingress": "/".join(given.ingress)})
            await stop.wait()
            LOG.info("ending")
            task.cancel()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="guard ingress-health", description="Reports whether a node may get traffic.", allow_abbrev=False
    )

    def flag(name: str, dest: str, text: str, **more: object) -> None:
        parser.add_argument(f"-{name}", f"--{name}", dest=dest, help=text, **more)  # type: ignore[arg-type]

    levels = ("debug", "info", "warn", "error")
    flag("log.level", "log_level", "log level", default="info", choices=levels)
    flag("ingress", "ingress", "the IngressDaemonSet", type=_ingress, required=True, metavar="NAMESPACE/NAME")
    flag("port", "port", "port to listen on", type=_port, required=True, metavar="PORT")
    flag("due", "due", "annotation of a Deployment whose pods will be updated", default=DUE, metavar="KEY")
    node = os.environ.get("NODE_NAME", "")
    flag("node", "node", "the node (default: $NODE_NAME)", default=node, required=not node, metavar="NAME")
    flag("kubernetes.config-file", "kubeconfig", "kubeconfig, outside a cluster", type=Path, metavar="FILE")
    return parser


def _ingress(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)
