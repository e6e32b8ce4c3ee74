"""`guard FLAGS`, and its other programs by their names: from the arguments to a process that ends by a signal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from upgrader.in_cluster.guard.commands.flags import parse
from upgrader.in_cluster.guard.commands.haproxy_agent import haproxy_agent
from upgrader.in_cluster.guard.commands.ingress_health import ingress_health
from upgrader.in_cluster.guard.commands.process import serve
from upgrader.in_cluster.guard.commands.program import connected, until_signal, usage_error
from upgrader.in_cluster.guard.commands.release import release
from upgrader.in_cluster.guard.guard_errors import GuardError
from upgrader.in_cluster.guard.logs import set_up

__all__ = ["main"]

_OTHERS = {"haproxy-agent": haproxy_agent, "ingress-health": ingress_health, "release": release}
"""What isn't a role of the one in the cluster: it runs on a load balancer, on each node, or once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 ended by a signal, 1 it could not go on, 2 usage."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and (other := _OTHERS.get(arguments[0])):
        return other(arguments[1:])
    try:
        settings = parse(arguments)
        connection = connected(settings.kubeconfig, settings.url)
    except GuardError as error:
        return usage_error("guard", error)
    set_up(settings.log_level)
    namespace = os.environ.get("POD_NAMESPACE") or settings.namespaces[0]
    return until_signal("guard", lambda stop: serve(settings, connection, namespace, stop))
