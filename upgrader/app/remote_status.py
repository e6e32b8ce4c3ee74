"""The runs and the lock in the cluster, for commands that only report: optional, and read with a short timeout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.app.wiring import open_kube, open_session
from upgrader.engine.history.journal_in_secrets import ClusterReplicas
from upgrader.engine.history.run_discovery import DiscoveredRuns, find_runs
from upgrader.engine.locks.cluster_lock import read_lease
from upgrader.engine.locks.lease_object import Lease
from upgrader.errors import ApiUnavailable, UpgraderError

__all__ = ["RemoteStatus", "read_remote_status"]

_SECONDS = 3.0
"""Timeout of each request: the cluster only adds to what the folder has."""


@dataclass(frozen=True)
class RemoteStatus:
    """What the cluster answered, or why it didn't."""

    runs: DiscoveredRuns
    lease: Lease | None = None
    problem: str = ""
    answered: bool = True
    """Whether the API answered at all, be it with a refusal."""


def read_remote_status(folder: Path, *, controllers: bool) -> RemoteStatus:
    """Read the lock and the runs from the cluster; without an API, with `controllers`, the runs from their disks."""
    try:
        with open_kube(folder, _SECONDS) as kube:
            lease = read_lease(kube)
            return RemoteStatus(find_runs((ClusterReplicas(kube),)), lease)
    except UpgraderError as error:
        runs = _on_controllers(folder) if controllers else DiscoveredRuns((), ())
        return RemoteStatus(runs, problem=error.message, answered=not isinstance(error, ApiUnavailable))


def _on_controllers(folder: Path) -> DiscoveredRuns:
    try:
        with open_session(folder) as session:
            return session.find_runs()
    except UpgraderError as error:
        return DiscoveredRuns((), (error.message,))
