"""What is known of a cluster outside its folder, for commands that only tell: asked briefly, and never needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.cli.wiring import open_kube, open_session
from upgrader.engine.history.journal_replicas import ClusterReplicas
from upgrader.engine.history.run_discovery import Found, find_runs
from upgrader.engine.locks.cluster_lock import read_lease
from upgrader.engine.locks.lease import Lease
from upgrader.errors import UpgraderError

__all__ = ["Elsewhere", "look_elsewhere"]

_SECONDS = 3.0
"""How long each answer of the API is waited for: it adds to what the folder says."""


@dataclass(frozen=True)
class Elsewhere:
    """What the cluster says, or why it doesn't."""

    runs: Found
    lease: Lease | None = None
    problem: str = ""


def look_elsewhere(folder: Path, *, controllers: bool) -> Elsewhere:
    """Ask the cluster for its lock and its runs; without an API, and with `controllers`, their disks for the runs."""
    try:
        with open_kube(folder, _SECONDS) as kube:
            lease = read_lease(kube)
            return Elsewhere(find_runs((ClusterReplicas(kube),)), lease)
    except UpgraderError as error:
        return Elsewhere(_on_controllers(folder) if controllers else Found((), ()), problem=error.message)


def _on_controllers(folder: Path) -> Found:
    try:
        with open_session(folder) as session:
            return session.find_runs()
    except UpgraderError as error:
        return Found((), (error.message,))
