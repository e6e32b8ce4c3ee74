"""How many replicas the sets of a group should have: as many as a leader, or as another resource says.

One set is changed at a time, and the rest is decided anew from what is there then. What goes wrong here is an Event and
changes nothing; rollouts go on meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from upgrader.contract.times import duration_of
from upgrader.in_cluster.guard.core.rollout import Event
from upgrader.in_cluster.guard.core.workloads import StatefulSet

__all__ = [
    "FORCE",
    "LEADER",
    "MIN_TIME",
    "NotScaled",
    "Reference",
    "Scaling",
    "Wish",
    "WriteBack",
    "decide",
    "leader_of",
    "min_time",
    "reference_of",
    "writes_back",
]

LEADER = "grafana.com/rollout-downscale-leader"
WHEN_LEADER_READY = "grafana.com/rollout-upscale-only-when-leader-ready"
FORCE = "grafana.com/rollout-force-replicas"
MIN_TIME = "grafana.com/min-time-between-zones-downscale"
_MIRROR = "grafana.com/rollout-mirror-replicas-from-resource"
_AMOUNT = re.compile(r"[0-9]{1,9}")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


class NotScaled(Exception):
    """Why a set isn't scaled."""


@dataclass(frozen=True)
class Reference:
    """A resource that sets follow: what its scale wants, and what its status shows."""

    replicas: int
    status_replicas: int


@dataclass(frozen=True)
class Wish:
    """A set that should have another number of replicas. `by_reference`: a delayed downscale has to agree to fewer."""

    set: StatefulSet
    replicas: int
    by_reference: bool


@dataclass(frozen=True)
class WriteBack:
    """A reference whose status should show this number."""

    set: StatefulSet
    replicas: int


@dataclass(frozen=True)
class Scaling:
    """What should change: take the first wish that can be had, and decide anew.

    `staying`: sets that have what their reference wants. Their pods are told that they stay, as somebody may have
    wanted fewer before. `write_back`: for the references of some of those. Where a wish by reference is had, its status
    shows the new number; where it can't be had, the old one: `writes_back` says whether at all.
    """

    wishes: tuple[Wish, ...] = ()
    staying: tuple[StatefulSet, ...] = ()
    write_back: tuple[WriteBack, ...] = ()
    events: tuple[Event, ...] = ()


def decide(
    sets: Iterable[StatefulSet],
    references: Mapping[str, Reference | str],
    last_downscales: Mapping[str, float],
    now: float,
) -> Scaling:
    """The wishes of a group's sets.

    `references`: of each set that has one, by the set's name; a text says why it can't be read. `last_downscales`: by
    the set's name, as the group's Lease tells.
    """
    ordered = sorted(sets, key=lambda s: s.name)
    wishes: list[Wish] = []
    staying: list[StatefulSet] = []
    back: list[WriteBack] = []
    events: list[Event] = []
    for each in ordered:
        try:
            wanted = _as_leader(each, ordered, last_downscales, now)
        except NotScaled as error:
            events.append(Event(each, "Warning", "NotScaled", str(error)))
            continue
        if wanted != each.replicas:
            wishes.append(Wish(each, wanted, by_reference=False))
    for each in ordered:
        try:
            if (seen := _reference(each, references)) is None:
                continue
            wanted = _forced(each, seen.replicas)
        except NotScaled as error:
            events.append(Event(each, "Warning", "NotScaled", str(error)))
            continue
        if wanted != each.replicas:
            wishes.append(Wish(each, wanted, by_reference=True))
            continue
        staying.append(each)
        if seen.status_replicas != wanted and writes_back(each):
            back.append(WriteBack(each, wanted))
    return Scaling(tuple(wishes), tuple(staying), tuple(back), tuple(events))


def reference_of(which: StatefulSet) -> tuple[str, str, str] | None:
    """The API version, kind and name of the resource that the set follows; None if it follows none."""
    name, kind = (which.annotations.get(f"{_MIRROR}-{part}", "") for part in ("name", "kind"))
    return (which.annotations.get(f"{_MIRROR}-api-version", ""), kind, name) if name and kind else None


def writes_back(which: StatefulSet) -> bool:
    """Whether the reference's status is to show the set's replicas; anything but a yes is a no."""
    return which.annotations.get(f"{_MIRROR}-write-back", "true") in _TRUE


def min_time(which: StatefulSet) -> float | None:
    """Seconds between a downscale of one zone and the next one's, by label or annotation; None if it says nothing.

    Raises `NotScaled` for what is no duration.
    """
    text = which.labels.get(MIN_TIME, which.annotations.get(MIN_TIME))
    if text is None:
        return None
    seconds = duration_of(text)
    if seconds is None:
        raise NotScaled(f"{MIN_TIME} of {which.name} is {text[:64]!r}, not a duration such as 12h")
    return seconds


def leader_of(which: StatefulSet, sets: Iterable[StatefulSet]) -> StatefulSet | None:
    """The set that this one follows; None if it follows none. Raises `NotScaled` if it is missing or in a circle."""
    by_name = {s.name: s for s in sets}
    name = which.annotations.get(LEADER)
    if name is None:
        return None
    if name not in by_name:
        raise NotScaled(f"the leader {name!r} of {which.name} is not in its group")
    chain, at = [which.name], by_name.get(name)
    while at is not None:
        if at.name in chain:
            raise NotScaled(f"{which.name} follows leaders in a circle: {' → '.join([*chain, at.name])}")
        chain.append(at.name)
        at = by_name.get(at.annotations.get(LEADER, ""))
    return by_name[name]


def _as_leader(which: StatefulSet, sets: list[StatefulSet], last_downscales: Mapping[str, float], now: float) -> int:
    leader = leader_of(which, sets)
    if leader is None:
        return which.replicas
    if FORCE in which.annotations:
        return _forced(which, which.replicas)
    if leader.replicas > which.replicas:
        waits = which.annotations.get(WHEN_LEADER_READY) == "true" and leader.ready_replicas != leader.replicas
        return which.replicas if waits else leader.replicas
    if leader.replicas < which.replicas and not _elapsed(which, sets, last_downscales, now):
        return which.replicas
    return leader.replicas


def _elapsed(which: StatefulSet, sets: list[StatefulSet], last_downscales: Mapping[str, float], now: float) -> bool:
    """Whether the last downscale of another zone is long enough ago."""
    others = [last_downscales[s.name] for s in sets if s.name != which.name and s.name in last_downscales]
    if not others:
        return True
    least = min_time(which)
    if least is None:
        raise NotScaled(f"{which.name} needs {MIN_TIME}, because another zone of its group was downscaled")
    return now - max(others) > least


def _forced(which: StatefulSet, otherwise: int) -> int:
    text = which.annotations.get(FORCE)
    if text is None:
        return otherwise
    if not _AMOUNT.fullmatch(text):
        raise NotScaled(f"{FORCE} of {which.name} is {text[:64]!r}, not a non-negative integer")
    return int(text)


def _reference(which: StatefulSet, references: Mapping[str, Reference | str]) -> Reference | None:
    wanted = reference_of(which)
    if wanted is None:
        return None
    found = references.get(which.name, "it hasn't been read yet")
    if isinstance(found, str):
        raise NotScaled(f"{which.name} follows {wanted[1]} {wanted[2]}, which can't be read: {found}")
    return found
