"""`upgrader status` and `upgrader history`: what is known of a cluster's runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.app.cluster_folder import check_cluster_folder
from upgrader.app.remote_status import read_remote_status
from upgrader.engine.history.past_runs import PastRun, past_runs
from upgrader.engine.history.run_discovery import with_remote_runs
from upgrader.engine.history.run_status import Status, status_of
from upgrader.engine.locks.folder_lock import folder_holder

__all__ = ["KnownRuns", "known_runs"]


@dataclass(frozen=True)
class KnownRuns:
    """All runs, oldest first, and what the newest is doing."""

    runs: tuple[PastRun, ...]
    status: Status
    problem: str
    """Why runs of other machines are not known; "" when they are."""


def known_runs(folder: Path) -> KnownRuns:
    """The runs of this folder and of other machines, without needing the cluster.

    What other machines did is read from the cluster, or, where the folder has no run and the API doesn't answer, from
    the controllers' disks. Raises UsageError for a folder that isn't a cluster's.
    """
    check_cluster_folder(folder)
    runs = folder / "runs"
    here = past_runs(runs)
    remote = read_remote_status(folder, controllers=not here)
    known = with_remote_runs(here, remote.runs, runs)
    newest = known[-1] if known else None
    status = status_of(folder_holder(folder), newest, remote.lease, remote.problem, answered=remote.answered)
    return KnownRuns(known, status, remote.problem)
