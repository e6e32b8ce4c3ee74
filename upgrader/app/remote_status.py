"""The runs and the lock in the cluster, for commands that only report: optional, and read with a short timeout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.app.wiring import open_kube, open_session
from upgrader.engine.history.journal_in_secrets import ClusterReplicas
from upgrader.engine.history.run_discovery import DiscoveredRuns, find_runs
from upgrader.engine.locks.cluster_lock import read_lease
from upgrader.engine.locks.lease_object import Lease
from upgrader.errors import UpgraderError

__all__ = ["RemoteStatus", "read_remote_status"]

_SECONDS = 3.0
"""Timeout of each request: the cluster only adds to what the folder has."""


@dataclass(frozen=True)
class RemoteStatus:
    """What the cluster answered, or why it didn't."""

    runs: DiscoveredRuns
    lease: Lease | None = None
    problem: str = ""


def read_remote_status(folder: Path, *, controllers: bool) -> RemoteStatus:
    """Read the lock and the runs from the cluster; without an API, with `controllers`, the runs from their disks."""
    try:
        with open_kube(folder, _SECONDS) as kube:
            lease = read_lease(kube)
            return RemoteStatus(find_runs((ClusterReplicas(kube),)), lease)
    except UpgraderError as error:
        return RemoteStatus(_on_controllers(folder) if controllers else DiscoveredRuns((), ()), problem=error.message)


def _on_controllers(folder: Path) -> DiscoveredRuns:
    try:
        with open_session(folder) as session:
            return session.find_runs()
    except UpgraderError as error:
        return DiscoveredRuns((), (error.message,))
