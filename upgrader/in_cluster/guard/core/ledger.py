"""What a budget has allowed and isn't visible in the cluster yet.

Between the answer that allows a deletion and the moment when the pod is seen to terminate, nothing in the cluster tells
of it; the next answer, in any process, would still count the pod. So each allowed deletion is reserved, by
the pod's UID, in the status of the budget, by an update with its resourceVersion, before the answer goes out: of two
processes that write at once one gets a conflict, reads again, and sees what the other has allowed. Requests for one
budget that arrive meanwhile share the next write: `admit` answers any number of them against one ledger.

A reservation belongs to the requests that asked for it. When another budget refuses one of them, its part is given
back; the reservation stays for as long as one of the others may still delete the pod.

An eviction is of a name, and another webhook may hold it up. If its pod goes without it, as one that is deleted, or
whose node is lost, the eviction may delete the next pod of that name. So that one counts as reserved too, until it is
known that an eviction has deleted the former one, or until the reservation has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

from upgrader.contract.times import micro_timestamp, seconds_of
from upgrader.in_cluster.guard.core.admission import Answer
from upgrader.in_cluster.guard.core.workloads import Pod

__all__ = [
    "OF_ONE_POD",
    "OF_ROLLOUTS",
    "SETTLED_AFTER",
    "Judgement",
    "Ledger",
    "Request",
    "Reservation",
    "admit",
    "refusal",
    "settled",
]

SETTLED_AFTER = 60.0
"""Seconds that a reservation stays; an API server gives a request up before, and no cache lags so long."""

OF_ROLLOUTS = "rollout-"
"""The prefix of the ids of rollouts' own requests, which delete by the UID."""
OF_ONE_POD = "one-pod-"
"""The prefix of the ids of evictions that can't delete the next pod of the name, as they require this one."""
_MOST_REQUESTS = 16


@dataclass(frozen=True)
class Request:
    """A pod that somebody wants to delete. `id`: the UID of the AdmissionRequest, or whatever else is used once."""

    id: str
    pod: Pod
    dry_run: bool = False


@dataclass(frozen=True)
class Judgement:
    """A budget's answer to one request, and whether it must be reserved. `why`: one word, for metrics.

    `took`: it has just been reserved for this request, for which it wasn't before: what another budget's refusal frees.
    Who forges a request with the id of one that is recorded must not free what the other one may still delete.
    """

    answer: Answer
    why: str
    reserves: bool = False
    took: bool = False


@dataclass(frozen=True)
class Reservation:
    """A pod that may be gone at any time, since when, and the requests that it was allowed to."""

    uid: str
    name: str
    since: float
    requests: frozenset[str] = frozenset()

    def may_hang(self, evicted: Container[str]) -> bool:
        """Whether an eviction may be left when the pod is gone, which deletes a StatefulSet's next pod of that name.

        `evicted`: the UIDs of pods that an eviction is known to have deleted. Only where there was no other request is
        it certainly the one that was allowed.
        """
        evictions = [name for name in self.requests if _is_of_a_name(name)]
        return bool(evictions) and ("" in evictions or len(self.requests) > 1 or self.uid not in evicted)


class Book(Protocol):
    """Where reservations stand: a `Ledger`, or a PodProtector's admission histories."""

    def without(self, uid: str) -> Self:
        """The same without what is reserved for this pod, which its own request doesn't count against itself."""
        ...

    def reserve(self, request: Request, now: float) -> Self:
        """The same with this pod reserved for this request too."""
        ...


B = TypeVar("B", bound=Book)


@dataclass(frozen=True)
class Ledger:
    """The reservations of a zone-aware budget, by the pod's UID."""

    reservations: Mapping[str, Reservation] = field(default_factory=dict)

    def __contains__(self, uid: str) -> bool:
        return uid in self.reservations

    def may_take(self, pod: Pod, evicted: Container[str]) -> bool:
        """Whether this pod may be gone at any time: by what is reserved for it, or for a former one of its name.

        `evicted`: see `Reservation.may_hang`.
        """
        return pod.uid in self or any(each.may_hang(evicted) for each in self._by_name.get(pod.name, ()))

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[Reservation]]:
        """Of a name there may be several: each pod of it that went, within a minute."""
        found = dict[str, list[Reservation]]()
        for each in self.reservations.values():
            found.setdefault(each.name, []).append(each)
        return found

    def without(self, uid: str) -> Ledger:
        """The ledger without this pod."""
        return Ledger({u: r for u, r in self.reservations.items() if u != uid}) if uid in self else self

    def reserve(self, request: Request, now: float) -> Ledger:
        """The ledger with this pod reserved for this request, besides those that have reserved it already.

        Who asks every five seconds for hours fills no status: many requests become nameless, and stay until settled;
        those that delete this pod alone are still known as such.
        """
        pod = request.pod
        there = self.reservations.get(pod.uid, Reservation(pod.uid, pod.name, now))
        names = there.requests
        if pod.goes_anyway and _is_of_a_name(request.id):
            names |= {""}  # what it goes by
        if len(names) >= _MOST_REQUESTS:
            names = frozenset(map(_nameless, names))
        mine = there if request.id in there.requests else replace(there, requests=names | {request.id})
        return self if mine == there else Ledger({**self.reservations, pod.uid: mine})

    def without_these(self, reservations: Collection[Reservation]) -> Ledger:
        """The ledger without these, where they are still as they are here."""
        return Ledger({u: r for u, r in self.reservations.items() if r not in reservations})

    def give_back(self, requests: Collection[str]) -> Ledger:
        """The ledger without the part of these requests; a pod that others have reserved too stays."""
        left = (replace(r, requests=r.requests.difference(requests)) for r in self.reservations.values())
        return Ledger({r.uid: r for r in left if r.requests})

    def status(self) -> list[dict[str, Any]]:
        """As `.status.reservations` holds it."""
        return [
            {
                "podUID": r.uid,
                "podName": r.name,
                "startTime": micro_timestamp(r.since),
                "requests": sorted(r.requests),
            }
            for _, r in sorted(self.reservations.items())
        ]

    @classmethod
    def of(cls, status: object) -> Ledger:
        """The ledger in `.status.reservations`; an entry that names no pod reserves none."""
        entries = [e for e in status if isinstance(e, dict)] if isinstance(status, list) else []
        found = {}
        for entry in entries:
            uid, requests = entry.get("podUID"), entry.get("requests")
            if isinstance(uid, str) and uid:
                names = frozenset(r for r in requests if isinstance(r, str)) if isinstance(requests, list) else None
                since = seconds_of(entry.get("startTime")) or 0.0
                found[uid] = Reservation(uid, str(entry.get("podName", "")), since, names or frozenset({""}))
        return cls(found)


def _is_of_a_name(request: str) -> bool:
    return not request.startswith((OF_ROLLOUTS, OF_ONE_POD))


def _nameless(request: str) -> str:
    return next((prefix for prefix in (OF_ROLLOUTS, OF_ONE_POD) if request.startswith(prefix)), "")


def admit(
    book: B, requests: Iterable[Request], now: float, judge: Callable[[Request, B], Judgement]
) -> tuple[tuple[Judgement, ...], B]:
    """Each request's judgement, in order, and the book to be written; write it only if it isn't the one given.

    `judge` sees what was reserved before, by earlier requests of this call too, but not for the request's own pod. So
    a request that comes again is judged anew and takes no second place. A dry run is judged alike and reserves nothing.
    """
    judgements = []
    for request in requests:
        judged = judge(request, book.without(request.pod.uid))
        if judged.reserves and judged.answer.allowed and not request.dry_run:
            before, book = book, book.reserve(request, now)
            judged = replace(judged, took=book != before)
        judgements.append(judged)
    return tuple(judgements), book


def refusal(judgements: Iterable[Judgement]) -> Judgement | None:
    """The first of several budgets' judgements that refuses; None if all agree. Then the rest is given back."""
    return next((j for j in judgements if not j.answer.allowed), None)


def settled(ledger: Ledger, noticed: Mapping[Reservation, float], now: float) -> tuple[Reservation, ...]:
    """Which reservations have done their work: their requests have ended by now, or what they deleted is seen.

    `noticed`: when this process first saw each of them as it is, by its own clock, as `since` is by another's. They
    stay for `SETTLED_AFTER` seconds: longer than an API server takes to end the request that the answer was for. Who
    judges after that reads the pods from the API, where one that terminates, or is gone, counts by itself.
    """
    return tuple(r for r in ledger.reservations.values() if now - noticed.get(r, now) >= SETTLED_AFTER)
