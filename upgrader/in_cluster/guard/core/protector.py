"""PodProtectors: a pod may be deleted while more are available than must be, in all cells together.

Each cell's aggregator counts its pods, its webhook writes down what it has allowed. What is allowed and not counted
yet is subtracted, as those pods may be gone at any time:

    estimate = available, as the cells count − deletions that they have allowed and not seen

A deletion of an available pod is allowed if the estimate is above `minAvailable`, and is written down before the answer
goes out. So the number of available pods can't come below `minAvailable` by deletions that were asked about: each of
them lowers the estimate by one when it is allowed, and an aggregator that sees it lowers the count by one in the same
write in which it drops it from what was allowed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from upgrader.in_cluster.guard.core.admission import (
    BAD_REQUEST,
    CONFLICT,
    TOO_MANY_REQUESTS,
    AdmissionRequest,
    Answer,
    NotAnAdmissionReview,
    allow,
    deny,
    names_an_object,
    names_one_pod,
)
from upgrader.in_cluster.guard.core.admission_history import (
    OF_EVICTIONS,
    Bucket,
    compacted,
    given_back,
    reserved,
    total,
    without,
)
from upgrader.in_cluster.guard.core.ledger import Judgement, Request
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.core.workloads import Pod, pod

__all__ = [
    "FORCED",
    "FORCE_DELETE",
    "HEALTH_CRITERION",
    "Cell",
    "Counts",
    "Protector",
    "ProtectorRequest",
    "Tuning",
    "judge",
    "lost_already",
    "misdirected",
    "pod_of_delete",
    "request_for",
]

FORCE_DELETE = "podseidon.kubewharf.io/force-delete"
HEALTH_CRITERION = "podseidon.kubewharf.io/health-criterion"
REJECTED_BY = "reject-by-podprotector"
FORCED = "force-delete"
"""Keys of audit annotations, which the API server puts the webhook's name and a slash before, and allows one slash."""

_OF_UNREADY = ("Running", "Scheduled")
"""Criteria that pods meet which aren't Ready."""


@dataclass(frozen=True)
class Tuning:
    """`admissionHistoryConfig`: 0 lets any number of deletions be unseen at a time; the rate is in seconds."""

    max_concurrent_lag: int = 0
    compact_threshold: int = 100
    aggregation_rate: float = 1.0


@dataclass(frozen=True)
class Counts:
    """How many pods of a cell exist, and how many of them are what."""

    total: int = 0
    available: int = 0
    ready: int = 0
    scheduled: int = 0
    running: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.total + other.total,
            self.available + other.available,
            self.ready + other.ready,
            self.scheduled + other.scheduled,
            self.running + other.running,
        )


@dataclass(frozen=True)
class Cell:
    """What a cell's aggregator has counted, up to its event of `last_event`, and what its webhook has allowed since.

    `young`: the UIDs of Ready pods that aren't counted as available, as the aggregator saw them become Ready less than
    `minReadySeconds` ago. `counted_by`: the digest of the selector of the pods that were counted; "" if it isn't known:
    Podseidon doesn't write it.
    """

    name: str
    counts: Counts = Counts()
    last_event: float | None = None
    buckets: tuple[Bucket, ...] = ()
    young: frozenset[str] = frozenset()
    counted_by: str = ""


@dataclass(frozen=True)
class Protector:
    """A PodProtector. `aggregation`: which pods count; `selector`: which of them are protected.

    `silent`: cells of which nothing is known any more; not stored, but set to decide.
    """

    namespace: str
    name: str
    min_available: int
    selector: Selector
    aggregation: Selector
    min_ready_seconds: int = 0
    tuning: Tuning = Tuning()
    cells: tuple[Cell, ...] = ()
    silent: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def counts(self) -> Counts:
        """All cells together, without silent ones, and those whose pods another selector has counted: none of its own
        is known yet.
        """
        return sum((c.counts for c in self.cells if not (c.name in self.silent or self.is_uncounted(c))), Counts())

    @property
    def lag(self) -> int:
        """How many deletions are allowed and not seen; without those in silent cells, whose pods don't count either."""
        return sum(total(c.buckets) for c in self.cells if c.name not in self.silent)

    @property
    def estimate(self) -> int:
        """How many pods are available for certain."""
        return self.counts.available - self.lag

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """A pod that one of them matches is protected, or counts."""
        return (self.selector,) if self.aggregation is self.selector else (self.selector, self.aggregation)

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is protected, or counts."""
        return any(each.matches(labels) for each in self.selectors)

    def cell(self, name: str) -> Cell:
        """A cell; an empty one that isn't there yet."""
        return next((c for c in self.cells if c.name == name), Cell(name))

    def is_uncounted(self, cell: Cell) -> bool:
        """Whether what a cell has counted is of a selector that the protector had before."""
        return cell.counted_by not in ("", self.aggregation.digest)

    def with_cell(self, cell: Cell) -> Protector:
        """The protector with this cell instead of the one of its name, in the order of names."""
        others = [c for c in self.cells if c.name != cell.name]
        return replace(self, cells=tuple(sorted([*others, cell], key=lambda c: c.name)))

    def without_cells(self, names: Collection[str]) -> Protector:
        """The protector with some cells forgotten, with all that they counted and allowed."""
        return replace(self, cells=tuple(c for c in self.cells if c.name not in names))

    def without(self, uid: str) -> Protector:
        """The protector as if this pod's deletion had not been allowed yet."""
        if not any(uid in b.known for c in self.cells for b in c.buckets):
            return self
        return replace(self, cells=tuple(replace(c, buckets=without(c.buckets, {uid})) for c in self.cells))

    def reserve(self, request: Request, now: float) -> Protector:
        """The protector with this deletion written down in the request's cell."""
        assert isinstance(request, ProtectorRequest)
        cell, pod = self.cell(request.cell), request.pod
        buckets = cell.buckets
        for each in ("", request.id) if pod.goes_anyway else (request.id,):  # "": what it goes by
            buckets = reserved(buckets, pod.uid, pod.name, each, now)
        kept = compacted(buckets, self.tuning.compact_threshold, request.id)
        return self.with_cell(replace(cell, buckets=kept))

    def give_back(self, requests: Mapping[str, str]) -> Protector:
        """The protector without what these requests, by their `id`, reserved for these pods, by UID."""
        made = self
        for identity, uid in requests.items():
            for cell in made.cells:
                made = made.with_cell(replace(cell, buckets=given_back(cell.buckets, uid, {identity})))
        return made


@dataclass(frozen=True)
class ProtectorRequest(Request):
    """A pod of a cell that is to be deleted, or evicted; `criterion`: Available unless an annotation says otherwise."""

    cell: str = ""
    eviction: bool = False
    criterion: str = "Available"

    @property
    def may_hang(self) -> bool:
        """Whether it may delete another pod of the name, when this one is gone."""
        return self.id.startswith(OF_EVICTIONS)


def misdirected(request: AdmissionRequest) -> Answer | None:
    """A refusal of what is neither a pod's deletion nor its eviction; None for those."""
    asked = (request.operation, request.group, request.resource, request.subresource)
    if asked == ("DELETE", "", "pods", "") or (asked == ("CREATE", "", "pods", "eviction") and request.name):
        return None
    return deny(BAD_REQUEST, f"{request.operation} of {request} is not a deletion or eviction of a pod")


def pod_of_delete(request: AdmissionRequest) -> Pod:
    """The pod as the API server had it when it was to be deleted; raises `NotAnAdmissionReview` for what is none.

    The request has no name where a collection is deleted: the API server asks about each of its pods.
    Any client can send this: reserve only for a pod whose UID is read from the API.
    """
    try:
        found = pod(request.old_object or {})
    except (KeyError, TypeError, AttributeError, ValueError):
        raise NotAnAdmissionReview("oldObject isn't a pod") from None
    texts = (found.name, found.uid, *_texts(found.labels), *_texts(found.annotations))
    if not all(isinstance(each, str) for each in texts) or not names_an_object(found.name):
        raise NotAnAdmissionReview("oldObject isn't a pod")
    if request.name not in ("", found.name) or found.namespace != request.namespace:
        raise NotAnAdmissionReview("oldObject isn't the request's pod")
    return found


def request_for(request: AdmissionRequest, subject: Pod, cell: str) -> ProtectorRequest:
    """What is asked of each protector. An eviction's own annotation counts before the pod's."""
    own = (request.object or {}).get("metadata") if request.subresource == "eviction" else None
    annotations = own.get("annotations") if isinstance(own, dict) else None
    asked = annotations.get(HEALTH_CRITERION) if isinstance(annotations, dict) else None
    evicts_a_name = request.subresource == "eviction" and subject.name_returns and not names_one_pod(request)
    return ProtectorRequest(
        id=f"{OF_EVICTIONS}{request.uid}" if evicts_a_name else request.uid,
        pod=subject,
        dry_run=request.dry_run,
        cell=cell,
        eviction=request.subresource == "eviction",
        criterion=asked if isinstance(asked, str) else subject.annotations.get(HEALTH_CRITERION, "Available"),
    )


def lost_already(subject: Pod, *, eviction: bool, may_hang: bool = False) -> Judgement | None:
    """The answer about a pod that certainly isn't counted when it goes; None for any other, and for an eviction that
    may hang: it may delete the next pod of the name, which counts.

    A pod that has ended (Succeeded, Failed) doesn't become Ready again, although its condition may still say Ready: who
    ends a pod without its kubelet, such as the garbage collector of pods, only writes the phase. A pod that isn't Ready
    may become Ready. If it does before it is deleted, the API server asks again. Before an eviction, the API server
    reads the pod only after it has asked. By the criterion Running or Scheduled, a pod that isn't Ready counts.
    """
    if subject.goes_anyway and may_hang:
        return None
    if subject.terminating:
        return Judgement(allow(), "AlreadyTerminating")
    counts = subject.annotations.get(HEALTH_CRITERION) in _OF_UNREADY
    if subject.finished or (subject.ready_since is None and not eviction and not counts):
        return Judgement(allow(), "AlreadyUnready")
    return None


def judge(request: Request, protector: Protector) -> Judgement:
    """What a protector says to a pod's deletion. `protector`: as `admit` hands it over.

    No clock decides: a Ready pod isn't available where the count says that it wasn't counted as such. It may go
    whatever there is, and is reserved all the same, as it may be counted before it is seen to go. So is a pod that
    isn't Ready, if it is evicted or its criterion counts it, one that only counts, and one that goes anyway, whose
    eviction may delete the next pod of its name.
    """
    assert isinstance(request, ProtectorRequest)
    subject = request.pod
    if lost := lost_already(subject, eviction=request.eviction, may_hang=request.may_hang):
        return lost
    if not protector.selector.matches(subject.labels):
        return Judgement(allow(), "Unmatched", reserves=protector.aggregation.matches(subject.labels))
    if subject.ready_since is None or subject.goes_anyway:
        return Judgement(allow(), "AlreadyTerminating" if subject.terminating else "AlreadyUnready", reserves=True)
    if subject.uid in protector.cell(request.cell).young:
        return Judgement(allow(), "AlreadyUnhealthy", reserves=True)
    if FORCE_DELETE in subject.annotations:
        return Judgement(allow(audit={FORCED: _short(subject.annotations[FORCE_DELETE])}), "Forced", reserves=True)
    healthy, lag = _healthy(protector.counts, request.criterion), protector.lag
    audit = {REJECTED_BY: str(protector)}
    least = protector.min_available or -math.inf  # with 0, no pod has to stay, even before the first count
    if healthy <= least:
        few = f"PodProtector {protector} reports too few available replicas to admit pod deletion{_silence(protector)}"
        return Judgement(deny(TOO_MANY_REQUESTS, few, audit), "Rejected")
    most = protector.tuning.max_concurrent_lag
    if healthy - lag <= least or 0 < most <= lag:
        full = f"PodProtector {protector} has full admission buffer and is temporarily unable to admit pod deletion"
        # `kubectl drain` gives up on anything but 429.
        return Judgement(deny(TOO_MANY_REQUESTS if request.eviction else CONFLICT, full, audit), "NeedRetry")
    return Judgement(allow(), "NewDisruption", reserves=True)


def _silence(protector: Protector) -> str:
    if not protector.silent:
        return ""
    which = (
        f"cell {min(protector.silent)}"
        if len(protector.silent) == 1
        else f"cells {', '.join(sorted(protector.silent))}"
    )
    return f": the pods of the {which} don't count, because no aggregator has counted them for five minutes"


def _healthy(counts: Counts, criterion: str) -> int:
    by_name = {"Scheduled": counts.scheduled, "Running": counts.running, "Ready": counts.ready}
    return by_name.get(criterion, counts.available)


def _texts(found: object) -> Iterator[object]:
    """What has to be strings in labels or annotations, or themselves where they are no map."""
    yield from found.values() if isinstance(found, dict) else (found,)


def _short(text: str) -> str:
    return text[:256]
