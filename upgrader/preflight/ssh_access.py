"""Before anything is changed, every controller is reachable over SSH, because recovery needs it."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.errors import HostError, HostUnreachable
from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext

__all__ = ["check_hosts"]


def check_hosts(context: PreflightContext) -> Iterator[Finding]:
    """Every controller runs a command over SSH, as root."""
    for host in context.cluster.controllers:
        try:
            uid = context.hosts.run(host, ["id", "-u"], timeout_seconds=15.0).stdout.strip()
        except HostUnreachable as error:
            yield Finding(
                "hosts.unreachable", "error", f"{host.name} can't be reached over SSH", error.message, error.remedy
            )
        except HostError as error:
            yield Finding("hosts.command", "error", f"{host.name} doesn't run commands", error.message, error.remedy)
        else:
            if uid != "0":
                yield Finding(
                    "hosts.not-root",
                    "error",
                    f"commands on {host.name} don't run as root",
                    f"`id -u` prints {uid or 'nothing'} for user '{host.user}'.",
                    "Set ansible_user to root, or ansible_become to true, in the inventory.",
                )
