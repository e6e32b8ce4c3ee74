"""Which deletions a cell's webhook has allowed that its aggregator hasn't seen: buckets of one pod, or of many.

When there are too many, the oldest are put into one. What is left of them is their number, and since none may be
forgotten the sum of all counters stays the same; a bucket that counted less would let more pods go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from upgrader.contract.times import micro_timestamp, seconds_of

__all__ = ["Bucket", "bucket", "compacted", "given_back", "reserved", "total"]

_MOST_REQUESTS = 16
"""Of one pod, that are kept by name."""


@dataclass(frozen=True)
class Bucket:
    """Deletions that were allowed from `start` to `end`: one of the pod `uid`, or `counter` of pods nobody knows now.

    `requests`: the admission requests that a single pod was allowed to.
    """

    start: float
    uid: str = ""
    name: str = ""
    end: float | None = None
    counter: int | None = None
    requests: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """How many deletions."""
        return 1 if self.counter is None else self.counter

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
        return made


def bucket(content: Mapping[str, Any]) -> Bucket:
    """A bucket from the API's object. What is missing or strange makes it count no less than it may."""
    counter, uid = content.get("counter"), content.get("podUID")
    return Bucket(
        start=seconds_of(content.get("startTime")) or 0.0,
        uid=uid if isinstance(uid, str) else "",
        name=str(content.get("podName") or ""),
        end=seconds_of(content.get("endTime")),
        counter=max(1, counter) if isinstance(counter, int) and not isinstance(counter, bool) else None,
        requests=frozenset(r for r in content.get("requests") or () if isinstance(r, str)),
    )


def total(buckets: Iterable[Bucket]) -> int:
    """How many deletions they stand for."""
    return sum(b.count for b in buckets)


def compacted(buckets: Iterable[Bucket], threshold: int) -> tuple[Bucket, ...]:
    """The same deletions in at most `threshold` buckets of one pod, the youngest, and one of all older ones."""
    ordered = sorted(buckets, key=lambda b: (b.start, b.uid))
    singles, old = [b for b in ordered if b.uid], [b for b in ordered if not b.uid]
    excess = max(0, len(singles) - threshold)
    if excess or len(old) > 1:
        old += singles[:excess]
        old = [Bucket(min(b.start for b in old), end=max(b.last for b in old), counter=total(old))]
    return (*old, *singles[excess:])


def reserved(buckets: tuple[Bucket, ...], uid: str, name: str, request: str, now: float) -> tuple[Bucket, ...]:
    """The buckets with this pod's deletion allowed to this request, besides those that it was allowed to before.

    A controller whose deletion somebody else refuses asks for days, and fills no status: many requests become nameless,
    and nobody's giving back frees the pod then.
    """
    if not any(b.uid == uid for b in buckets):
        return (*buckets, Bucket(now, uid, name, requests=frozenset({request})))
    return tuple(replace(b, requests=_with(b.requests, request)) if b.uid == uid else b for b in buckets)


def _with(requests: frozenset[str], request: str) -> frozenset[str]:
    if request in requests or len(requests) < _MOST_REQUESTS:
        return requests | {request}
    return frozenset({"", request})


def given_back(buckets: tuple[Bucket, ...], uid: str, requests: Collection[str]) -> tuple[Bucket, ...]:
    """The buckets without these requests' part in this pod's; it stays while another request has one."""
    left = (replace(b, requests=b.requests.difference(requests)) if b.uid == uid else b for b in buckets)
    return tuple(b for b in left if b.uid != uid or b.requests)
