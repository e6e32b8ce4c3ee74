"""Asks controllers what only they can tell while there is no API: one command over SSH each, all at once."""

from __future__ import annotations

from collections.abc import Sequence

from upgrader.model.cluster import Cluster, Host
from upgrader.ports import Hosts
from upgrader.recover.facts import Examined, HostFacts

__all__ = ["examine", "examine_all"]


def examine(hosts: Hosts, host: Host) -> HostFacts:
    """One controller's facts; changes nothing there. Raises HostUnreachable or HostError."""
    raise NotImplementedError


def examine_all(hosts: Hosts, cluster: Cluster, only: Sequence[str] = ()) -> tuple[Examined, ...]:
    """All controllers, or those named, in the inventory's order; one that can't be examined says why."""
    raise NotImplementedError
