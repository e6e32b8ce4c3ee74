"""Durations: how long has what been so?

``advance`` folds one observation after the other; all times are monotonic seconds, so a clock jump changes nothing. A
gap in knowledge ends a duration of the kind that permits something ("has been Ready since"), never extends one: an
unknown is neither Ready, nor absent, nor answering, nor away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from upgrader.checkpointer.model import ApiState, LeaseSeen, Observation, Presence, Workload

_NO_PODS = Presence()


@dataclass(frozen=True)
class Timeline:
    """One workload over time. Each ``…_since`` is the start of an unbroken run of looks that all saw it so, or None.

    ``ready_since`` is for each (pod UID, digest), so that a changed Secret starts its own time. ``absent_passes``
    counts looks. ``seen_up``: some pod of the workload had a living sandbox since this process looks, so a kubelet
    knows it. ``unstable_since``: since when nothing stayed up with the same containers for a ``ready_for``.
    """

    ready_since: Mapping[tuple[str, str], float] = field(default_factory=dict)
    parent_ready_since: float | None = None
    absent_since: float | None = None
    absent_passes: int = 0
    seen_up: bool = False
    up: frozenset[str] = frozenset()
    up_since: float | None = None
    unstable_since: float | None = None
    lease: LeaseSeen | None = None
    lease_stale_since: float | None = None
    lease_elsewhere_since: float | None = None


@dataclass(frozen=True)
class History:
    """The node over time: the API, and each workload."""

    now: float = 0.0
    answering_since: float | None = None
    away_since: float | None = None
    away_passes: int = 0
    runtime_known: bool = False
    timelines: Mapping[Workload, Timeline] = field(default_factory=dict)

    def of(self, workload: Workload) -> Timeline:
        """The workload's timeline; an empty one for a workload never seen."""
        return self.timelines.get(workload, Timeline())

    def lasted(self, since: float | None, seconds: float) -> bool:
        """Whether something that is so since ``since`` (None: it isn't) has been so for ``seconds``."""
        return since is not None and self.now - since >= seconds


def advance(history: History, seen: Observation, workloads: Iterable[Workload], ready_for: float) -> History:
    """The history after one more look. ``workloads``: those on disk; those of the observed pods are added."""
    every = {*workloads, *(p.workload for p in seen.parents)}
    return History(
        now=seen.now,
        answering_since=_since(history.answering_since, seen.api is ApiState.ANSWERING, seen.now),
        away_since=_since(history.away_since, seen.api is ApiState.AWAY, seen.now),
        away_passes=history.away_passes + 1 if seen.api is ApiState.AWAY else 0,
        runtime_known=seen.runtime is not None,
        timelines={w: _advance_one(history.of(w), w, seen, ready_for) for w in every},
    )


def _since(before: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def _advance_one(line: Timeline, workload: Workload, seen: Observation, ready_for: float) -> Timeline:
    return _lease(_runtime(_readiness(line, workload, seen), workload, seen, ready_for), workload, seen)


def _readiness(line: Timeline, workload: Workload, seen: Observation) -> Timeline:
    if seen.api is not ApiState.ANSWERING:
        return replace(line, ready_since={}, parent_ready_since=None)
    ready = [p for p in seen.parents if p.workload == workload and p.ready and not p.terminating]
    since = {
        (p.uid, p.digest): line.ready_since.get((p.uid, p.digest), seen.now) for p in ready if p.digest is not None
    }
    return replace(line, ready_since=since, parent_ready_since=_since(line.parent_ready_since, bool(ready), seen.now))


def _runtime(line: Timeline, workload: Workload, seen: Observation, ready_for: float) -> Timeline:
    presence = None if seen.runtime is None else seen.runtime.get(workload, _NO_PODS)
    if presence is None or presence.unknown:
        return replace(line, absent_since=None, absent_passes=0, up=frozenset(), up_since=None, unstable_since=None)
    absent = not presence.running
    # A second pod that joins or leaves doesn't make the first less stable: what must last is any one container set's
    # overlap.
    same = presence.up & line.up
    up_since = line.up_since if same else (seen.now if presence.up else None)
    stable = up_since is not None and seen.now - up_since >= ready_for
    return replace(
        line,
        absent_since=_since(line.absent_since, absent, seen.now),
        absent_passes=line.absent_passes + 1 if absent else 0,
        seen_up=line.seen_up or presence.sandbox or not absent,
        up=same or presence.up,
        up_since=up_since,
        unstable_since=_since(line.unstable_since, not stable, seen.now),
    )


def _lease(line: Timeline, workload: Workload, seen: Observation) -> Timeline:
    lease = seen.leases.get(workload) if seen.api is ApiState.ANSWERING else None
    if lease is None:
        return replace(line, lease=None, lease_stale_since=None, lease_elsewhere_since=None)
    renewed = line.lease is not None and line.lease.stamp != lease.stamp
    stale_since = seen.now if renewed or line.lease_stale_since is None else line.lease_stale_since
    # Held elsewhere only while it is being renewed: a dead holder's name stays in a Lease for ever.
    elsewhere = not lease.ours and (
        renewed or (line.lease_elsewhere_since is not None and seen.now - stale_since < _RENEWED)
    )
    return replace(
        line,
        lease=lease,
        lease_stale_since=stale_since,
        lease_elsewhere_since=_since(line.lease_elsewhere_since, elsewhere, seen.now),
    )


_RENEWED = 15.0
"""Seconds within which a held lease must be renewed: the default lease duration of Kubernetes' leader election."""
