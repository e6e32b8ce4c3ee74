"""Durations: how long has what been so?

`advance` folds one observation after the other; all times are monotonic seconds, so a clock jump changes nothing. A
gap in knowledge ends a duration of the kind that permits something ("has been Ready since"), never extends one: an
unknown is neither Ready, nor absent, nor answering, nor unreachable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from upgrader.in_cluster.checkpointer.observed_values import ApiState, LeaseSeen, Observation, Presence
from upgrader.onhost.node.workload_policy import Workload

_NO_PODS = Presence()


@dataclass(frozen=True)
class Timeline:
    """One workload over time. Each `…_since` is the start of an unbroken run of passes that all saw it so, or None.

    `ready_since` is for each (pod UID, digest), so that a changed Secret starts its own time. `absent_passes`
    counts passes. `barred`: why no standby pod may run here, in this pass. `seen_up`: some pod of the workload had a
    living sandbox since this process started, so a kubelet knows it. `unstable_since`: since when nothing stayed up
    with the same containers for a `ready_for`.
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
    ownerless_since: float | None = None
    barred: str = ""
    barred_since: float | None = None
    unneeded_since: float | None = None
    standby: StandbyTimeline | None = None


@dataclass(frozen=True)
class StandbyTimeline:
    """The standby pod whose manifest is in place, over time; another generation is another standby pod.

    `placed_since`: since when its manifest has been in place. `up`, `up_since`: as for the workload's own pod.
    `down_since`: since when it hasn't been up for long enough. `tried`: the kubelet has made a sandbox for it.
    `failing_since`: the same as `down_since`, but only once the kubelet has tried, and while nothing that it depends
    on is unreachable: then it is the standby pod's own fault.
    """

    number: int
    placed_since: float
    up: frozenset[str] = frozenset()
    up_since: float | None = None
    down_since: float | None = None
    tried: bool = False
    failing_since: float | None = None


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
        """Whether something that is so since `since` (None: it isn't) has been so for `seconds`."""
        return since is not None and self.now - since >= seconds


def advance(history: History, seen: Observation, workloads: Iterable[Workload], ready_for: float) -> History:
    """The history after one more pass. `workloads`: those on disk; those of the observed pods are added."""
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
    line = _runtime(_readiness(line, workload, seen), workload, seen, ready_for)
    ownerless = seen.api is ApiState.ANSWERING and workload in seen.ownerless
    unneeded = seen.api is ApiState.ANSWERING and workload in seen.unneeded
    line = replace(
        line,
        ownerless_since=_since(line.ownerless_since, ownerless, seen.now),
        barred=seen.barred.get(workload, ""),
        barred_since=_since(line.barred_since, workload in seen.barred, seen.now),
        unneeded_since=_since(line.unneeded_since, unneeded, seen.now),
    )
    return _standby(_lease(line, workload, seen), workload, seen, ready_for)


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
    up, up_since = _up(line.up, line.up_since, presence, seen.now)
    stable = up_since is not None and seen.now - up_since >= ready_for
    return replace(
        line,
        absent_since=_since(line.absent_since, absent, seen.now),
        absent_passes=line.absent_passes + 1 if absent else 0,
        seen_up=line.seen_up or presence.sandbox or not absent,
        up=up,
        up_since=up_since,
        unstable_since=_since(line.unstable_since, not stable, seen.now),
    )


def _up(
    before: frozenset[str], since: float | None, presence: Presence, now: float
) -> tuple[frozenset[str], float | None]:
    """Which containers are up, and since when. A second pod that starts or ends doesn't make the first less stable:
    what must last is any one container set's overlap.
    """
    same = presence.up & before
    return same or presence.up, since if same else (now if presence.up else None)


def _standby(line: Timeline, workload: Workload, seen: Observation, ready_for: float) -> Timeline:
    now = seen.standbys.get(workload) if seen.runtime is not None else None
    if now is None or now.presence.unknown:
        return replace(line, standby=None)
    before = (
        line.standby
        if line.standby is not None and line.standby.number == now.number
        else StandbyTimeline(now.number, seen.now)
    )
    up, up_since = _up(before.up, before.up_since, now.presence, seen.now)
    down = up_since is None or seen.now - up_since < ready_for
    tried = before.tried or now.presence.sandbox
    standby = StandbyTimeline(
        number=now.number,
        placed_since=before.placed_since,
        up=up,
        up_since=up_since,
        down_since=_since(before.down_since, down, seen.now),
        tried=tried,
        failing_since=_since(before.failing_since, down and tried and not now.blocked, seen.now),
    )
    return replace(line, standby=standby)


def _lease(line: Timeline, workload: Workload, seen: Observation) -> Timeline:
    lease = seen.leases.get(workload) if seen.api is ApiState.ANSWERING else None
    if lease is None:
        return replace(line, lease=None, lease_stale_since=None, lease_elsewhere_since=None)
    renewed = line.lease is not None and line.lease.stamp != lease.stamp
    stale_since = seen.now if renewed or line.lease_stale_since is None else line.lease_stale_since
    # Held elsewhere only while it is being renewed: the name of a dead holder stays in the Lease.
    elsewhere = not lease.ours and (
        renewed or (line.lease_elsewhere_since is not None and seen.now - stale_since < _RENEWED_SECONDS)
    )
    return replace(
        line,
        lease=lease,
        lease_stale_since=stale_since,
        lease_elsewhere_since=_since(line.lease_elsewhere_since, elsewhere, seen.now),
    )


_RENEWED_SECONDS = 15.0
"""Seconds within which a held lease must be renewed: the default lease duration of Kubernetes' leader election."""
