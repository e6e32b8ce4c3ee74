"""Which deletions a cell's webhook has allowed that its aggregator hasn't seen: buckets of one pod, or of many.

When there are too many, the oldest are put into one. What is left of them is their number and their UIDs. None may be
forgotten, so the sum of all counters stays the same: a bucket that counted less would let more pods go. Without the
UIDs, a second request for the same pod would take a second place, and no pod could be struck off as it goes.

An eviction is of a name: one that hangs may delete the next pod of that name. So its pod keeps its own bucket before
all others; and where there are too many, the bucket of many says that evictions are among them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from upgrader.contract.times import micro_timestamp, seconds_of

__all__ = ["OF_EVICTIONS", "Bucket", "bucket", "compacted", "given_back", "reserved", "total", "without"]

OF_EVICTIONS = "eviction-"
"""The prefix of the ids of evictions of a pod whose name may come again."""
_MOST_REQUESTS = 16
"""Of one pod, that are kept by name."""
_MOST_UIDS = 2000
"""In a bucket of many: about 80 KB. Of more, their number is kept."""
_MOST_EVICTED = 200
"""Evicted pods that have their own buckets, whatever the threshold is."""


@dataclass(frozen=True)
class Bucket:
    """Deletions that were allowed from `start` to `end`: one of the pod `uid`, or `counter` of many.

    `requests`: the admission requests that a single pod was allowed to; of many pods, the one that the last of them was
    put to them for, and `OF_EVICTIONS` where one of them was evicted. `uids`: of many pods, as far as they are known.
    """

    start: float
    uid: str = ""
    name: str = ""
    end: float | None = None
    counter: int | None = None
    requests: frozenset[str] = frozenset()
    uids: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """How many deletions."""
        return 1 if self.counter is None else self.counter

    @property
    def known(self) -> frozenset[str]:
        """The UIDs of its pods, as far as they are known."""
        return frozenset({self.uid}) if self.uid else self.uids

    @property
    def evicted(self) -> bool:
        """Whether one of the requests is an eviction of a pod whose name may come again."""
        return any(each.startswith(OF_EVICTIONS) for each in self.requests)

    @property
    def may_hang(self) -> bool:
        """Whether an eviction may be left when one has deleted the pod, which deletes whatever pod has the name by
        then. Deletions are of a UID: the API server asks about one that takes effect at once twice.
        """
        return self.evicted and (len(self.requests) > 1 or not self.uid)

    @property
    def unknown(self) -> int:
        """How many of its pods have no known UID: after compactions by Podseidon, or beyond the limit of recorded
        UIDs."""
        return self.count - len(self.known)

    @property
    def last(self) -> float:
        """When the last of them was allowed."""
        return self.start if self.end is None else max(self.start, self.end)

    @property
    def content(self) -> dict[str, Any]:
        """As the API holds it."""
        made: dict[str, Any] = {"startTime": micro_timestamp(self.start)}
        if self.name:
            made["podName"] = self.name
        if self.uid:
            made["podUID"] = self.uid
        if self.end is not None:
            made["endTime"] = micro_timestamp(self.end)
        if self.counter is not None:
            made["counter"] = self.counter
        if self.requests:
            made["requests"] = sorted(self.requests)
        if self.uids:
            made["podUIDs"] = sorted(self.uids)
        return made


def bucket(content: Mapping[str, Any]) -> Bucket:
    """A bucket from the API's object. What is missing or strange makes it count no less than it may."""
    counter, uid = content.get("counter"), content.get("podUID")
    uid = uid if isinstance(uid, str) else ""
    uids = frozenset(u for u in content.get("podUIDs") or () if isinstance(u, str) and u and not uid)
    if not isinstance(counter, int) or isinstance(counter, bool):
        counter = None
    return Bucket(
        start=seconds_of(content.get("startTime")) or 0.0,
        uid=uid,
        name=str(content.get("podName") or ""),
        end=seconds_of(content.get("endTime")),
        counter=max(1, len(uids), counter or 1) if counter is not None or uids else None,
        requests=frozenset(r for r in content.get("requests") or () if isinstance(r, str)),
        uids=uids,
    )


def total(buckets: Iterable[Bucket]) -> int:
    """How many deletions they stand for."""
    return sum(b.count for b in buckets)


def compacted(buckets: Iterable[Bucket], threshold: int, request: str = "") -> tuple[Bucket, ...]:
    """The same deletions in at most `threshold` buckets of one pod, the youngest, and one of all older ones; but up to
    `_MOST_EVICTED` evicted pods keep theirs.

    `request`: the one that is reserved now. A pod that is asked for again may be put to the others at once, which by
    their number and their UIDs looks as if nothing had happened, and by their times too where clocks differ.
    """
    ordered = sorted(buckets, key=lambda b: (b.evicted, b.start, b.uid))
    singles, old = [b for b in ordered if b.uid], [b for b in ordered if not b.uid]
    evicted = sum(b.evicted for b in singles)
    excess = max(0, len(singles) - max(threshold, min(evicted, _MOST_EVICTED)))
    if excess or len(old) > 1:
        old += singles[:excess]
        uids = sorted(uid for b in old for uid in b.known)
        start, end = min(b.start for b in old), max(b.last for b in old)
        requests = frozenset({request.removeprefix(OF_EVICTIONS)} - {""})
        if any(b.evicted for b in old):
            requests |= {OF_EVICTIONS}
        old = [Bucket(start, end=end, counter=total(old), requests=requests, uids=frozenset(uids[:_MOST_UIDS]))]
    return (*old, *singles[excess:])


def reserved(buckets: tuple[Bucket, ...], uid: str, name: str, request: str, now: float) -> tuple[Bucket, ...]:
    """The buckets with this pod's deletion allowed to this request, besides those that it was allowed to before.

    A controller whose deletion another webhook refuses may retry for days. So that this doesn't fill the status, many
    requests lose their IDs, but not whether they are evictions, and the pod is then freed by no single request. A pod
    of a bucket of many gets its own bucket.
    """
    if not any(b.uid == uid for b in buckets):
        nameless = {OF_EVICTIONS if b.evicted else "" for b in buckets if uid in b.uids}
        return (*without(buckets, {uid}), Bucket(now, uid, name, requests=frozenset({request, *nameless})))
    return tuple(replace(b, requests=_with(b.requests, request)) if b.uid == uid else b for b in buckets)


def _with(requests: frozenset[str], request: str) -> frozenset[str]:
    if not requests:
        return frozenset({"", request})  # by Podseidon, which doesn't say to which request
    if request not in requests and len(requests) >= _MOST_REQUESTS:
        requests = frozenset(OF_EVICTIONS if each.startswith(OF_EVICTIONS) else "" for each in requests)
    return requests | {request}


def given_back(buckets: tuple[Bucket, ...], uid: str, requests: Collection[str]) -> tuple[Bucket, ...]:
    """The buckets without these requests' part in this pod's; it stays while another request, or an unknown one, has
    one.
    """
    left = (b if b.uid != uid or not b.requests else replace(b, requests=b.requests - {*requests}) for b in buckets)
    return tuple(each for each, before in zip(left, buckets, strict=True) if each.requests or not before.requests)


def without(buckets: Iterable[Bucket], uids: Collection[str], *, unknown: bool = False) -> tuple[Bucket, ...]:
    """The buckets without these pods; `unknown`: also without pods whose UIDs aren't known."""
    left: list[Bucket] = []
    for each in buckets:
        known = each.known.difference(uids)
        count = len(known) + (0 if unknown else each.unknown)
        if count == each.count:
            left.append(each)
        elif count:
            left.append(replace(each, counter=count, uids=known))
    return tuple(left)
