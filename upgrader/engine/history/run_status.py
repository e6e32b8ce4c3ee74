"""The status of a cluster folder's newest run: running, ended or interrupted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from upgrader.engine.history.past_runs import PastRun
from upgrader.engine.locks.folder_lock import FolderHolder
from upgrader.engine.locks.lease_object import Holder, Lease

__all__ = ["Status", "status_of"]

State = Literal["idle", "preparing", "running"]


@dataclass(frozen=True)
class Status:
    """What is happening in a cluster folder."""

    state: State
    """`running`: the newest run is running; `preparing`: a command holds the lock, but has begun no run yet."""
    holder: FolderHolder | None
    run: PastRun | None
    """The newest run; None when there is none."""
    cluster: Lease | None = None
    """The cluster's own lock, which another machine may hold; None when it was never taken, or is not known."""
    cluster_problem: str = ""
    """Why the cluster's lock is not known."""
    answered: bool = True
    """Whether the API answered when it was asked for that lock, be it with a refusal."""

    @property
    def cluster_holder(self) -> Holder | None:
        """Who holds the cluster's lock, as far as it is known."""
        return self.cluster.holder if self.cluster else None

    @property
    def resumable(self) -> bool:
        """Whether the newest run was interrupted, so that it can be continued."""
        return self.state == "idle" and self.run is not None and self.run.outcome == "interrupted"

    def as_json(self) -> dict[str, Any]:
        """For machines; times are ISO 8601 in UTC."""
        holder = self.holder and {"holder": self.holder.holder, "since": _iso(self.holder.since)}
        run = self.run and self.run.as_json(running=self.state == "running")
        seen = self.cluster
        lock = {
            "holder": asdict(seen.holder) if seen and seen.holder else None,
            "since": seen.acquired if seen else "",
            "renewed": seen.renewed if seen else "",
            "problem": self.cluster_problem,
        }
        return {
            "state": self.state,
            "holder": holder,
            "resumable": self.resumable,
            "now": self._now(),
            "run": run,
            "cluster_lock": lock,
        }

    def _now(self) -> dict[str, str] | None:
        """What the run is doing, in words; with the step that is active, in which phase, and since when, "" where it is
        between two. None: it isn't running.
        """
        if self.state != "running" or self.run is None:
            return None
        state = self.run.state
        step = next((step for step in state.all_steps if step.active), None)
        since = step.since if step else None
        return {
            "doing": state.doing,
            "step": step.name if step else "",
            "phase": step.phase if step else "",
            "since": _iso(since) if since else "",
        }


def status_of(
    holder: FolderHolder | None,
    newest: PastRun | None,
    cluster: Lease | None = None,
    cluster_problem: str = "",
    *,
    answered: bool = True,
) -> Status:
    """Combine these into a status.

    A run of this folder without an end is running only if the folder's lock was taken before it began: a later holder
    is another command, and the run was interrupted. A run of another machine counts as running while the cluster's
    lock names it: it takes a minute to find out whether that machine is alive.
    """
    known = partial(Status, cluster=cluster, cluster_problem=cluster_problem, answered=answered)
    state = newest.state if newest else None
    open_end = state is not None and state.started is not None and state.outcome is None
    if newest is not None and newest.place:
        named = bool(cluster and cluster.holder and cluster.holder.run == newest.name)
        return known("running" if named and open_end else "preparing" if holder else "idle", holder, newest)
    if holder is None:
        return known("idle", None, newest)
    begun = state is not None and open_end and state.active_since is not None and state.active_since >= holder.since
    return known("running" if begun else "preparing", holder, newest)


def _iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
