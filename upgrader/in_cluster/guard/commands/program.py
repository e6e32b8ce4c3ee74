"""What each of guard's programs has in common: a connection with credentials, and a process that ends by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from upgrader.in_cluster.guard.guard_errors import GuardError
from upgrader.in_cluster.guard.runtime.connection import Connection, by_kubeconfig, in_cluster

__all__ = ["connected", "until_signal", "usage_error"]


def connected(kubeconfig: Path | None, url: str = "") -> Connection:
    """By a kubeconfig, or as the pod's ServiceAccount. Raises GuardError where it has no credentials."""
    connection = by_kubeconfig(kubeconfig, url) if kubeconfig else in_cluster(os.environ)
    connection.credentials()
    return connection


def usage_error(program: str, error: GuardError) -> int:
    """Say it; the exit code."""
    sys.stderr.write(f"{program}: {error}\n")
    return 2


def until_signal(program: str, serve: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Serve until SIGTERM or SIGINT, which set the event. Exit code: 0 ended by a signal, 1 it could not go on."""

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(stop)

    try:
        asyncio.run(run())
    except OSError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 1
    return 0
