"""Rollouts of groups: StatefulSets with the label `rollout-group`, one after the other, each whole before the next.

What may be deleted is decided anew from what there is, so that a process that dies in the middle loses nothing: a pod
is stale when its revision isn't its set's `updateRevision`, whatever `currentRevision` says (the two are equal after a
template was taken back). As long as one set has a pod that isn't ready, no other set of the group loses one: that is
why at most one set may be incomplete before anything is deleted, and why that set goes first.

One exception does no harm: a stale pod that isn't Ready and won't be soon (its container crash-loops or
has no image, it has no node) is replaced whatever the budget, because otherwise a bad template could never be fixed
(grafana/rollout-operator#339). Others that aren't Ready may be so in a moment: they go first, but of these and of those
that are being replaced there are never more at a time than may be unavailable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet, natural, not_ready

__all__ = [
    "GROUP_LABEL",
    "MAX_UNAVAILABLE",
    "PAUSED",
    "Deletion",
    "Event",
    "Finished",
    "GroupDecision",
    "Hold",
    "Phase",
    "decide",
    "max_unavailable",
    "pods_by_owner",
]

GROUP_LABEL = "rollout-group"
MAX_UNAVAILABLE = "rollout-max-unavailable"
PAUSED = "grafana.com/rollout-paused"

_AMOUNT = re.compile(r"[0-9]{1,9}")
_PERCENT = re.compile(r"([0-9]{1,3})%")


class Phase(Enum):
    """Where a group is."""

    DONE = "Done"
    ROLLING = "Rolling"  # pods are to be deleted now
    WAITING = "Waiting"  # for pods, a controller, or people who paused a set
    HELD = "Held"  # by a run of the upgrader
    REFUSED = "Refused"  # it isn't set up for rollouts


@dataclass(frozen=True)
class Hold:
    """A run of the upgrader that is alive; only `groups` (`NAMESPACE/GROUP`) may roll meanwhile."""

    run: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Event:
    """A Kubernetes Event to record on a StatefulSet. Equal Events are one, told again."""

    about: StatefulSet
    type: str
    reason: str
    message: str


@dataclass(frozen=True)
class Deletion:
    """A pod to delete now, if each zone-aware budget agrees. `free`: it isn't Ready, and costs no budget.

    Delete it by its UID. What a budget refuses is left out; the others are still to be tried.
    """

    pod: Pod
    free: bool
    max_unavailable: int


@dataclass(frozen=True)
class Finished:
    """A set all of whose pods have `revision` and are ready: its `status.currentRevision` is to be set to it."""

    set: StatefulSet
    revision: str


@dataclass(frozen=True)
class GroupDecision:
    """What to do about a group now; `waits_for` is a sentence for people, empty if nothing is waited for."""

    phase: Phase
    waits_for: str = ""
    delete: tuple[Deletion, ...] = ()
    finished: tuple[Finished, ...] = ()
    events: tuple[Event, ...] = ()


def pods_by_owner(sets: Iterable[StatefulSet], pods: Iterable[Pod]) -> dict[str, tuple[Pod, ...]]:
    """Each set's pods by the set's UID, in natural order. Labels don't matter."""
    found: dict[str, list[Pod]] = {s.uid: [] for s in sets}
    for pod in pods:
        if pod.owner_uid in found:
            found[pod.owner_uid].append(pod)
    return {uid: tuple(sorted(own, key=lambda p: natural(p.name))) for uid, own in found.items()}


def max_unavailable(which: StatefulSet) -> tuple[int, str]:
    """How many of the set's pods may be not ready, at least 1, and what is wrong with the annotation (or nothing)."""
    text = which.annotations.get(MAX_UNAVAILABLE)
    if text is None:
        return 1, ""
    if _AMOUNT.fullmatch(text) and int(text) >= 1:
        return int(text), ""
    percent = _PERCENT.fullmatch(text)
    if percent and 1 <= int(percent[1]) <= 100:
        return max(1, which.replicas * int(percent[1]) // 100), ""
    return 1, f"{MAX_UNAVAILABLE} is {text[:64]!r}, not a number of 1 or more, or 1% to 100%; guard uses 1"


def decide(
    sets: Iterable[StatefulSet], pods: Iterable[Pod], hold: Hold | None = None, deleted: Collection[str] = ()
) -> GroupDecision:
    """What to do now about one group's sets. `pods`: at least those of the sets, in any order.

    `deleted`: the UIDs that were deleted already, of which a cache may not tell yet; they count as terminating.
    """
    ordered = sorted(sets, key=lambda s: s.name)
    if not ordered:
        return GroupDecision(Phase.DONE)
    own = pods_by_owner(ordered, (replace(p, terminating=True) if p.uid in deleted else p for p in pods))
    events = tuple(_warnings(ordered))
    group = f"{ordered[0].namespace}/{ordered[0].labels.get(GROUP_LABEL, '')}"
    if refusals := tuple(_not_on_delete(ordered)):
        return GroupDecision(Phase.REFUSED, refusals[0].message, events=refusals + events)
    if hold is not None and group not in hold.groups and not _complete(ordered, own):
        reason = f"the upgrade {hold.run} holds the group"
        return GroupDecision(Phase.HELD, reason, events=(*events, Event(ordered[0], "Normal", "RolloutHeld", reason)))
    if unclear := _unclear(ordered):
        return GroupDecision(Phase.WAITING, unclear, events=events)
    lacking = [s for s in ordered if not_ready(s, own[s.uid])]
    if len(lacking) > 1:
        reason = f"pods of {len(lacking)} StatefulSets aren't ready: {', '.join(s.name for s in lacking)}"
        told = Event(lacking[0], "Warning", "RolloutWaiting", reason)
        return GroupDecision(Phase.WAITING, reason, events=(*events, told))
    return _in_turn(lacking + [s for s in ordered if s not in lacking], own, events)


def _in_turn(order: list[StatefulSet], own: Mapping[str, tuple[Pod, ...]], events: tuple[Event, ...]) -> GroupDecision:
    finished: list[Finished] = []
    paused: list[str] = []

    def so_far(phase: Phase, waits_for: str, delete: tuple[Deletion, ...] = ()) -> GroupDecision:
        return GroupDecision(phase, waits_for, delete, tuple(finished), events)

    for each in order:
        pods = own[each.uid]
        lacking, stale = not_ready(each, pods), _stale(each, pods)
        if each.annotations.get(PAUSED) == "true":
            if lacking:
                return so_far(Phase.WAITING, f"{each.name} is paused, and {lacking} of its pods aren't ready")
            if stale:
                paused.append(each.name)
            continue
        if stale:
            if now := _deletions(each, stale, lacking):
                return so_far(Phase.ROLLING, f"{len(stale)} pods of {each.name} must be replaced", now)
            return so_far(
                Phase.WAITING,
                f"{len(stale)} pods of {each.name} must be replaced, and {lacking} of its pods aren't ready",
            )
        if lacking:
            return so_far(Phase.WAITING, f"{lacking} of {each.name}'s {each.replicas} pods aren't ready")
        if each.current_revision != each.update_revision:
            finished.append(Finished(each, each.update_revision))
    if paused:
        return so_far(Phase.WAITING, f"paused with outdated pods: {', '.join(paused)}")
    return so_far(Phase.DONE, "")


def _deletions(which: StatefulSet, stale: list[Pod], lacking: int) -> tuple[Deletion, ...]:
    """Those that can't serve first, then others that don't, then as many that do as may be missing besides."""
    most = max_unavailable(which)[0]
    there = [p for p in stale if not p.terminating]
    idle = [p for p in there if not p.ready]
    replaced = max(0, lacking - len(idle))
    stuck, unready = [p for p in idle if p.stuck], [p for p in idle if not p.stuck]
    free = [Deletion(p, free=True, max_unavailable=most) for p in (*stuck, *unready[: max(0, most - replaced)])]
    serving = [Deletion(p, free=False, max_unavailable=most) for p in there if p.ready]
    return (*free, *serving[: max(0, most - lacking)])


def _stale(which: StatefulSet, pods: Iterable[Pod]) -> list[Pod]:
    return [p for p in pods if p.revision != which.update_revision]


def _complete(sets: Iterable[StatefulSet], own: Mapping[str, tuple[Pod, ...]]) -> bool:
    return all(s.observed and not _stale(s, own[s.uid]) for s in sets)


def _unclear(sets: Iterable[StatefulSet]) -> str:
    for each in sets:
        if each.terminating:
            return f"{each.name} is being deleted"
        if not each.observed:
            return f"the controller has not seen the latest spec of {each.name}"
    return ""


def _not_on_delete(sets: Iterable[StatefulSet]) -> Iterable[Event]:
    for each in sets:
        if each.update_strategy != "OnDelete":
            message = (
                f"{each.name} has the update strategy {each.update_strategy}, not OnDelete: its group isn't rolled out"
            )
            yield Event(each, "Warning", "RolloutSkipped", message)


def _warnings(sets: Iterable[StatefulSet]) -> Iterable[Event]:
    for each in sets:
        if wrong := max_unavailable(each)[1]:
            yield Event(each, "Warning", "InvalidMaxUnavailable", wrong)
