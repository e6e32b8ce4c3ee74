"""`guard release FLAGS`: what the chart runs before it is uninstalled."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from upgrader.in_cluster.guard.commands.program import connected, usage_error
from upgrader.in_cluster.guard.guard_errors import GuardError
from upgrader.in_cluster.guard.logs import LOG, set_up
from upgrader.in_cluster.guard.roles.remove_finalizers import FinalizerRemoval
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import Connection
from upgrader.in_cluster.guard.runtime.leadership import Leadership

__all__ = ["release"]


def release(arguments: Sequence[str]) -> int:
    """Exit code: 0 guard's finalizer is removed from all objects, 1 it could not go on, 2 usage."""
    given = _parser().parse_args(arguments)
    try:
        connection = connected(given.kubeconfig)
    except GuardError as error:
        return usage_error("guard release", error)
    set_up("info")
    try:
        released = asyncio.run(_release(connection, given))
    except (GuardError, OSError) as error:
        sys.stderr.write(f"guard release: {error}\n")
        return 1
    LOG.info("guard's finalizer is removed from all objects", extra={"released": released})
    return 0


async def _release(connection: Connection, given: argparse.Namespace) -> int:
    async with Api(connection) as api:
        namespace = os.environ.get("POD_NAMESPACE") or given.namespace
        leadership = Leadership(api, namespace, "guard-generator", f"release-{os.environ.get('HOSTNAME', os.getpid())}")
        return await FinalizerRemoval(api, tuple(dict.fromkeys(given.namespaces)), leadership).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="guard release",
        description="Removes guard's finalizer from Deployments, and the PodProtectors that guard created for them.",
        allow_abbrev=False,
    )
    text = "namespace whose pods are protected; can be repeated (default: all)"
    parser.add_argument(
        "-protector.namespace", dest="namespaces", action="append", default=[], metavar="NAME", help=text
    )
    parser.add_argument(
        "-kubernetes.namespace", dest="namespace", default="guard", metavar="NAME", help="guard's namespace"
    )
    parser.add_argument("-kubernetes.config-file", dest="kubeconfig", type=Path, metavar="FILE", help="kubeconfig")
    return parser
