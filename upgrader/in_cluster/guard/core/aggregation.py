"""What an aggregator writes about its cell: how many pods there are, and which deletions it has seen.

Counts and buckets change in one write: a bucket goes when its pod no longer counts, or when it is certain that it won't
go. A pod that was seen to terminate doesn't count. If its eviction isn't what has deleted it, as a pod that has failed
goes without one, or isn't the only request that was allowed for it, the eviction may hang in another webhook until the
next pod of that name is there, as of a StatefulSet, which it then deletes: so its bucket stays for the minute as well.
A UID that this cache never saw, or that has stayed for a minute, is read from the
API first, as the cache may lag or another webhook may have refused the deletion. Where nothing but the number of pods
is known, it goes once this process has known it unchanged for a minute, and has counted what the API itself lists then:
that a watch says nothing doesn't mean that nothing has happened. No two processes' clocks are compared: a webhook may
be in another cluster.

A cell is first counted, and counted after a change of the selector, as the API lists its pods: the record says nothing
of pods whose deletions were allowed before, by another selector or without a protector, and the cache may still have
them.

A pod that was seen to become Ready is available once it has been so for `minReadySeconds` of this process's own time.
The UIDs of those that aren't yet are written, so that a webhook needn't compare its clock with anything. Of a pod that
was Ready when this process began, the condition says since when: that alone is compared with a clock, and only counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from upgrader.in_cluster.guard.core.admission_history import without
from upgrader.in_cluster.guard.core.ledger import SETTLED_AFTER
from upgrader.in_cluster.guard.core.protector import Cell, Counts, Protector
from upgrader.in_cluster.guard.core.workloads import Pod

__all__ = ["Aggregate", "Seen", "aggregate"]

_MOST_YOUNG = 1000
"""That are named; what isn't is judged as if it were available."""


@dataclass(frozen=True)
class Seen:
    """What an aggregator knows of its cell.

    `pods`: its cache, by UID, or `listed`: what the API has just listed. `gone`: UIDs that were deleted while it
    watched, `evicted`: those of them that an eviction has deleted. `read`: what the API said of UIDs that it was asked
    about since the last aggregation, None for none with that UID. `allowed_for`: for how many seconds this process has
    known each UID in a bucket, and "" for pods without a UID. `ready_for`: how many seconds ago it saw pods become
    Ready. `last_event`: up to when the cell is known.
    """

    pods: Mapping[str, Pod]
    last_event: float
    gone: Collection[str] = ()
    read: Mapping[str, Pod | None] | None = None
    allowed_for: Mapping[str, float] = field(default_factory=dict)
    ready_for: Mapping[str, float] = field(default_factory=dict)
    listed: bool = False
    evicted: Collection[str] = ()


@dataclass(frozen=True)
class Aggregate:
    """The cell to be written, the UIDs to be read from the API, whether all pods are to be listed before it may be
    written, and in how many seconds to ask again, if by itself.

    For a pod that only has to stay ready until it is available there is no event.
    """

    cell: Cell
    to_read: tuple[str, ...] = ()
    to_list: bool = False
    again_in: float | None = None


def aggregate(protector: Protector, cell_name: str, seen: Seen, now: float) -> Aggregate:
    """What to write about the cell; it is to be written only if it isn't the protector's. `now`: since the epoch."""
    read = seen.read or {}
    pods = [p for uid, p in seen.pods.items() if uid not in read] + [p for p in read.values() if p is not None]
    selected = [p for p in pods if p.namespace == protector.namespace and protector.aggregation.matches(p.labels)]
    counted = [p for p in selected if not _went(p.uid, seen)]
    unavailable = _unavailable(counted, protector.min_ready_seconds, seen, now)
    cell = protector.cell(cell_name)
    # A webhook may have recorded a deletion in a cell before it was first counted.
    is_first = protector.is_uncounted(cell) or (cell.last_event is None and not cell.counted_by)
    allowed = sorted(uid for bucket in cell.buckets for uid in bucket.known)
    hanging = {
        uid
        for bucket in cell.buckets
        for uid in bucket.known
        if (bucket.may_hang or (bucket.evicted and not _evicted(uid, seen))) and not _old(uid, seen)
    }
    settled = {uid for uid in allowed if uid not in hanging and _settled(uid, seen)}
    to_read = [
        uid
        for uid in allowed
        if uid not in settled and not _went(uid, seen) and uid not in read and _doubtful(uid, seen)
    ]
    unknown_settled = any(bucket.unknown for bucket in cell.buckets) and _old("", seen)
    made = replace(
        cell,
        counts=_counts(counted, unavailable),
        young=frozenset(sorted(unavailable.keys() & seen.ready_for.keys())[:_MOST_YOUNG]),
        last_event=_heard(seen.last_event, cell.last_event, now),
        buckets=without(cell.buckets, settled, unknown=unknown_settled and seen.listed),
        counted_by=protector.aggregation.digest,
    )
    again_in = min((seconds for seconds in unavailable.values() if seconds < math.inf), default=None)
    return Aggregate(made, tuple(to_read), (is_first or unknown_settled) and not seen.listed, again_in)


def _heard(last_event: float, before: float | None, now: float) -> float:
    """Never back, but from the future: a clock that was wrong must not have the cell look dead until then."""
    return last_event if before is None or before > now else max(last_event, before)


def _settled(uid: str, seen: Seen) -> bool:
    """Whether a bucket's pod no longer counts, or stays for certain."""
    return _went(uid, seen) or (seen.read is not None and uid in seen.read and _old(uid, seen))


def _went(uid: str, seen: Seen) -> bool:
    """Whether anything says that the pod is gone, terminates, or has ended. No pod comes back, so what says otherwise
    is older: a watch may be ahead of a list that takes a while.
    """
    read = seen.read or {}
    if uid in seen.gone or (uid in read and read[uid] is None):
        return True
    found = (seen.pods.get(uid), read.get(uid))
    return any(each is not None and (each.terminating or each.finished) for each in found)


def _evicted(uid: str, seen: Seen) -> bool:
    """Whether an eviction is known to have deleted the pod, or to be about to. Kubernetes says so since 1.26."""
    found = (seen.pods.get(uid), (seen.read or {}).get(uid))
    return uid in seen.evicted or any(each is not None and each.evicted for each in found)


def _doubtful(uid: str, seen: Seen) -> bool:
    return uid not in seen.pods or _old(uid, seen)


def _old(uid: str, seen: Seen) -> bool:
    return seen.allowed_for.get(uid, 0.0) >= SETTLED_AFTER


def _counts(pods: Collection[Pod], unavailable: Mapping[str, float]) -> Counts:
    return Counts(
        total=len(pods),
        available=sum(p.ready_since is not None and p.uid not in unavailable for p in pods),
        ready=sum(p.ready_since is not None for p in pods),
        scheduled=sum(p.scheduled for p in pods),
        running=sum(p.phase == "Running" for p in pods),
    )


def _unavailable(pods: Iterable[Pod], min_ready_seconds: int, seen: Seen, now: float) -> dict[str, float]:
    """In how many seconds each Ready pod is available that isn't, by UID."""
    waits = {
        p.uid: min_ready_seconds - seen.ready_for.get(p.uid, now - p.ready_since)
        for p in pods
        if p.ready_since is not None
    }
    return {uid: seconds for uid, seconds in waits.items() if seconds > 0} if min_ready_seconds > 0 else {}
