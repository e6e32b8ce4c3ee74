"""`guard FLAGS`, and its other programs by their names: from the arguments to a process that ends by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from upgrader.guard.commands.flags import parse
from upgrader.guard.commands.haproxy_agent import haproxy_agent
from upgrader.guard.commands.ingress_health import ingress_health
from upgrader.guard.commands.process import serve
from upgrader.guard.guard_errors import GuardError
from upgrader.guard.logs import set_up
from upgrader.guard.runtime.connection import by_kubeconfig, in_cluster

__all__ = ["main"]

_OTHERS = {"haproxy-agent": haproxy_agent, "ingress-health": ingress_health}
"""What isn't a role of the one in the cluster: it runs on a load balancer, or on each node."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 ended by a signal, 1 it could not go on, 2 usage."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and (other := _OTHERS.get(arguments[0])):
        return other(arguments[1:])
    try:
        settings = parse(arguments)
        connection = by_kubeconfig(settings.kubeconfig, settings.url) if settings.kubeconfig else in_cluster(os.environ)
        connection.credentials()
    except GuardError as error:
        sys.stderr.write(f"guard: {error}\n")
        return 2
    set_up(settings.log_level)

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(settings, connection, os.environ.get("POD_NAMESPACE") or settings.namespaces[0], stop)

    try:
        asyncio.run(run())
    except OSError as error:
        sys.stderr.write(f"guard: {error}\n")
        return 1
    return 0
