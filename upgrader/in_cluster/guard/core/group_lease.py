"""The Lease of a group: the lock between its rollouts and its sets' downscales, and when each set was last downscaled.

To act on a group, a process writes its lock with the resourceVersion that it has read, then reads the group, acts, and
removes the lock. An allowed downscale isn't visible yet: it is recorded as open until the set has no more replicas than
were allowed, and until then the other sets don't change. So no two sets lose pods at once, even if a process is killed
at any time.

A pod that was told that it will be deleted may stay, because replicas may be raised again before its controller has
removed it. It is recorded by its UID until it is gone, or was told that it stays; until then the other sets don't
change.

No clocks are compared for that: a lock, or an open downscale, expires once a process has seen it unchanged for long
enough by its own clock. After that, the resourceVersion keeps a slow holder from acting.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from upgrader.contract.times import micro_timestamp, seconds_of, timestamp
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet, ordinal

__all__ = [
    "GROUP",
    "LABEL",
    "LAST",
    "OPEN_SECONDS",
    "VALID_SECONDS",
    "GroupLease",
    "LeaseUnreadable",
    "Lock",
    "NoTime",
    "Open",
    "Preparing",
    "Record",
    "Waiting",
    "ever_ran",
    "given_up",
    "last_downscales",
    "locked",
    "manifest",
    "name_of",
    "read",
    "seen_sets",
    "told",
    "unseen",
    "waiting",
    "with_open",
]

LAST = "grafana.com/last-downscale"
"""On a set: when it was last downscaled. Whatever says so, rollout-operator too, is believed in order to refuse."""
LABEL = "guard.upgrader.io/lease"
"""Label of these Leases, with the value `group`."""
GROUP, LOCK, SETS, STAY = (f"guard.upgrader.io/{each}" for each in ("group", "lock", "sets", "stay"))
VALID_SECONDS = 40
"""A lock; no webhook takes longer than 30 s."""
OPEN_SECONDS = 90
"""A downscale that was allowed; an API server gives a request 60 s."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class LeaseUnreadable(ValueError):
    """A group's Lease has content that can't be read; the message says which."""


class NoTime(ValueError):
    """What should say when a set was last downscaled doesn't; says what."""


@dataclass(frozen=True)
class Preparing:
    """A set whose pods may have been told that they go: those between the two numbers of replicas."""

    set: str
    before: int
    after: int


@dataclass(frozen=True)
class Lock:
    """Who acts on the group now, and what for, as a sentence's subject. `preparing`: whom to tell otherwise if the
    holder is killed. `renewed`: another text each time that it is taken.
    """

    holder: str
    why: str
    preparing: Preparing | None = None
    renewed: str = ""


@dataclass(frozen=True)
class Open:
    """A downscale that was allowed at `at` (seconds since the epoch), of a set whose spec had that generation then."""

    at: float
    before: int
    after: int
    generation: int


@dataclass(frozen=True)
class Record:
    """What is noted of a set. `ever_ran`: no ordinal from this one on has ever had a running pod; None if it hasn't
    been watched yet. `prepared`: the UIDs of pods that were told that they go, by name.
    """

    uid: str
    last: float | None = None
    unseen: Open | None = None
    ever_ran: int | None = None
    prepared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupLease:
    """All that the Lease says; an empty one is that of a group that has none. `stay`: pods that somebody has begun to
    prepare, who was killed: they are still to be told that they stay.
    """

    lock: Lock | None = None
    sets: Mapping[str, Record] = field(default_factory=dict)
    stay: tuple[Preparing, ...] = ()

    @property
    def last_downscales(self) -> dict[str, float]:
        """By the set's name; one that is open counts from when it was allowed."""
        found = {name: r.unseen.at if r.unseen else r.last for name, r in self.sets.items()}
        return {name: at for name, at in found.items() if at is not None}


def last_downscales(
    lease: GroupLease, sets: Iterable[StatefulSet], tracked: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """When each set was last downscaled, by its name: the latest that the Lease, its annotation, or `tracked` says.

    Raises NoTime for an annotation that is no time.
    """
    found = dict(lease.last_downscales)
    for each in sets:
        text = each.annotations.get(LAST)
        shown = seconds_of(text)
        if text and shown is None:
            raise NoTime(f"{LAST} of {each.name} is {text[:64]!r}, not a time such as {timestamp(0)}")
        times = [at for at in (found.get(each.name), shown, tracked.get(each.name)) if at is not None]
        if times:
            found[each.name] = max(times)
    return found


Waiting = tuple[str, str, str]
"""What has to be seen unchanged for a while until it is given up: its kind, of what, and which one."""


def name_of(namespace: str, group: str) -> str:
    """The Lease's name: the group's where that can be one, else a hash of it."""
    if _NAME.fullmatch(group):
        return f"guard-group.{namespace}.{group}"
    return f"guard-group.{namespace}.{hashlib.sha256(group.encode()).hexdigest()[:32]}"


def waiting(lease: GroupLease) -> dict[Waiting, int]:
    """Each lock and each open downscale, with the seconds after which it is given up."""
    found: dict[Waiting, int] = {}
    if lease.lock:
        found["lock", lease.lock.holder, lease.lock.renewed] = VALID_SECONDS
    for name, record in lease.sets.items():
        if record.unseen:
            found[_of_open(name, record.unseen)] = OPEN_SECONDS
    return found


def unseen(lease: GroupLease, sets: Iterable[StatefulSet], old: Collection[Waiting]) -> dict[str, str]:
    """The sets whose downscale was allowed and can't be seen yet, or that have pods which stay after one, and haven't
    been told; each with a sentence's subject. `old`: what was seen unchanged for long enough: it doesn't count.
    """
    by_name = {each.name: each for each in sets}
    found: dict[str, str] = {}
    for name, record in lease.sets.items():
        which, opened = by_name.get(name), record.unseen
        if opened and not _visible(record, which):
            if _of_open(name, opened) not in old:
                found[name] = f"the downscale of {name} from {opened.before} to {opened.after} replicas, not seen yet"
        elif which and (left := sorted(name for name in record.prepared if _stays(name, which))):
            found[name] = (
                f"{left[0]} was prepared for shutdown, and is not removed after all, but has not been told so yet; "
                "if it can't be reached, delete it"
            )
    return found


def seen_sets(
    lease: GroupLease,
    sets: Iterable[StatefulSet],
    pods: Iterable[Pod],
    old: Collection[Waiting],
    watched: Collection[str],
) -> tuple[GroupLease, tuple[Preparing, ...]]:
    """What the Lease has to say after a look at the group, and whom to tell first that they stay after all.

    An open downscale that is visible becomes the set's last one. One that isn't, and is old, is forgotten, and its pods
    stay; it still counts if the set's spec has changed since, because the changes in between aren't known.
    Prepared pods that aren't there any more are forgotten. `watched`: the sets of which it is noted how many ordinals
    ever ran; all of one that is seen for the first time. What was noted of a set that isn't among these stays: a cache
    may not know it yet, or it is about to be created again.
    """
    sets, pods = tuple(sets), tuple(pods)
    stay: list[Preparing] = []
    records = dict(lease.sets)
    running = _running(pods)
    for which in sets:
        if which.name not in lease.sets and which.name not in watched:
            continue
        record = _record_of(lease, which)
        if (opened := record.unseen) and _visible(record, which):
            ran = None if record.ever_ran is None else min(record.ever_ran, which.first_ordinal + opened.after)
            record = replace(record, last=opened.at, unseen=None, ever_ran=ran)
        elif opened and _of_open(which.name, opened) in old:
            changed = which.generation != opened.generation
            record = replace(record, unseen=None, last=opened.at if changed else record.last)
            stay.append(Preparing(which.name, min(opened.before, which.replicas), opened.after))
        if which.name in watched:
            before = which.ordinals.stop if record.ever_ran is None else record.ever_ran
            highest = max((n + 1 for n in running.get(which.uid, ()) if n < which.ordinals.stop), default=0)
            record = replace(record, ever_ran=max(before, highest))
        if record.prepared and not record.unseen:
            record = replace(record, prepared=_still_there(record, which, pods))
            if which.observed_generation >= which.generation:  # or its controller may still remove them
                back = [_one(name, which) for name in sorted(record.prepared) if _stays(name, which)]
                stay += [each for each in back if not any(_covers(wider, each) for wider in stay)]
        records[which.name] = record
    free = given_up(lease, old)
    for each in free.stay:
        stay += _left(each, sets, records)
    return GroupLease(free.lock, records), tuple(each for each in stay if each.before > each.after)


def locked(lease: GroupLease, lock: Lock, old: Collection[Waiting]) -> GroupLease:
    """With this lock; whom the holder before has begun to prepare isn't forgotten."""
    return replace(given_up(lease, old), lock=lock)


def ever_ran(lease: GroupLease, which: StatefulSet) -> int:
    """From which ordinal on none has ever had a running pod; all of its have, if it wasn't watched yet."""
    record = lease.sets.get(which.name)
    noted = record.ever_ran if record and record.uid == which.uid else None
    return which.ordinals.stop if noted is None else noted


def told(lease: GroupLease, preparing: Preparing, which: StatefulSet, failed: Mapping[str, str]) -> GroupLease:
    """After the pods between the two numbers were told that they stay. `failed`: the UIDs, by name, of those that are
    there and couldn't be told; they are to be told again.
    """
    record = lease.sets.get(preparing.set)
    if record is None or record.uid != which.uid:
        return lease
    numbers = range(which.first_ordinal + preparing.after, which.first_ordinal + preparing.before)
    left = {name: uid for name, uid in record.prepared.items() if ordinal(name) not in numbers}
    return replace(lease, sets={**lease.sets, preparing.set: replace(record, prepared={**left, **failed})})


def with_open(
    lease: GroupLease, which: StatefulSet, preparing: Preparing, at: float, told_to_go: Mapping[str, str] | None = None
) -> GroupLease:
    """Without a lock, and with a downscale of a set that is allowed now. One that is open already is a part of it.
    `told_to_go`: the UIDs of the pods that were prepared, by name.
    """
    record = _record_of(lease, which)
    opened = record.unseen
    if opened and _visible(record, which):
        record, opened = replace(record, last=opened.at), None
    before = max(preparing.before, opened.before) if opened else preparing.before
    after = min(preparing.after, opened.after) if opened else preparing.after
    new = replace(
        record,
        unseen=Open(at, before, after, which.generation),
        prepared={**record.prepared, **(told_to_go or {})},
    )
    return replace(lease, lock=None, sets={**lease.sets, which.name: new})


def read(item: Mapping[str, Any] | None) -> GroupLease:
    """From the API's object; None: there is none. Raises LeaseUnreadable."""
    if item is None:
        return GroupLease()
    notes, spec = item["metadata"].get("annotations") or {}, item.get("spec") or {}
    try:
        holder, lock = spec.get("holderIdentity"), None
        if holder:
            about = json.loads(notes.get(LOCK) or "{}")
            preparing = about.get("preparing")
            lock = Lock(
                holder=str(holder),
                why=str(about.get("why") or holder),
                preparing=_preparing(preparing) if preparing else None,
                renewed=str(spec.get("renewTime") or ""),
            )
        sets = {name: _record(found) for name, found in json.loads(notes.get(SETS) or "{}").items()}
        stay = tuple(map(_preparing, json.loads(notes.get(STAY) or "[]")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LeaseUnreadable(f"its annotations can't be read: {type(error).__name__}: {error}") from None
    return GroupLease(lock, sets, stay)


def manifest(
    namespace: str, group: tuple[str, str], item: Mapping[str, Any] | None, lease: GroupLease, now: float
) -> dict[str, Any]:
    """The object to write; `item`: as it was read, None if there is none. `now` isn't compared."""
    before = (item or {}).get("metadata") or {"name": name_of(*group), "namespace": namespace}
    notes = {key: value for key, value in (before.get("annotations") or {}).items() if key not in (LOCK, STAY)}
    notes |= {GROUP: "/".join(group), SETS: _text({name: _written(r) for name, r in sorted(lease.sets.items())})}
    if lease.stay:
        notes[STAY] = _text([vars(each) for each in lease.stay])
    spec: dict[str, Any] = {"holderIdentity": "", "leaseDurationSeconds": VALID_SECONDS}
    if lock := lease.lock:
        spec |= {"holderIdentity": lock.holder, "renewTime": micro_timestamp(now), "acquireTime": micro_timestamp(now)}
        about: dict[str, Any] = {"why": lock.why}
        if lock.preparing:
            about["preparing"] = vars(lock.preparing)
        notes[LOCK] = _text(about)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {**before, "labels": {**(before.get("labels") or {}), LABEL: "group"}, "annotations": notes},
        "spec": spec,
    }


def _record_of(lease: GroupLease, which: StatefulSet) -> Record:
    """What is noted of this set. One that is created again under its name is the same zone, and may have the pods of
    the one before (`kubectl delete --cascade=orphan`, then `apply`): when it was last downscaled still counts, if that
    may have been done, and so do its prepared pods. How many of its ordinals ever ran isn't known.
    """
    record = lease.sets.get(which.name)
    if record is None:
        return Record(which.uid)
    if record.uid == which.uid:
        return record
    return Record(which.uid, last=record.unseen.at if record.unseen else record.last, prepared=record.prepared)


def given_up(lease: GroupLease, old: Collection[Waiting]) -> GroupLease:
    """Without a lock that is old; whom its holder has begun to prepare is noted."""
    lock = lease.lock
    if lock is None or ("lock", lock.holder, lock.renewed) not in old:
        return lease
    return replace(lease, lock=None, stay=(*lease.stay, *((lock.preparing,) if lock.preparing else ())))


def _left(preparing: Preparing, sets: Iterable[StatefulSet], records: Mapping[str, Record]) -> list[Preparing]:
    """Of the pods that somebody has begun to prepare, those that are there to stay."""
    opened = records[preparing.set].unseen if preparing.set in records else None
    return [
        replace(preparing, before=min(preparing.before, each.replicas, opened.after if opened else each.replicas))
        for each in sets
        if each.name == preparing.set
    ]


def _visible(record: Record, which: StatefulSet | None) -> bool:
    """Whether an open downscale can be seen in the set: it has no more replicas than were allowed, or is gone."""
    if which is None or which.uid != record.uid:
        return True
    return record.unseen is None or which.replicas <= record.unseen.after


def _stays(pod_name: str, which: StatefulSet) -> bool:
    """Whether the set wants this pod."""
    return ordinal(pod_name) in which.ordinals


def _one(pod_name: str, which: StatefulSet) -> Preparing:
    number = ordinal(pod_name) - which.first_ordinal
    return Preparing(which.name, number + 1, number)


def _covers(wider: Preparing, one: Preparing) -> bool:
    return wider.set == one.set and wider.after <= one.after < wider.before


def _still_there(record: Record, which: StatefulSet, pods: Iterable[Pod]) -> dict[str, str]:
    """Those that have the same UID, also while no set owns them, as their set was created again a moment ago."""
    owners = (which.uid, "")
    there = {each.name: each.uid for each in pods if each.owner_uid in owners and not each.terminating}
    return {name: uid for name, uid in record.prepared.items() if there.get(name) == uid}


def _of_open(name: str, opened: Open) -> Waiting:
    return "downscale", name, f"{micro_timestamp(opened.at)} {opened.after}"


def _running(pods: Iterable[Pod]) -> dict[str, list[int]]:
    """The ordinals of pods that run, and don't end, by the UID of their set."""
    found: dict[str, list[int]] = {}
    for pod in pods:
        number = ordinal(pod.name)
        if pod.phase == "Running" and not pod.terminating and number >= 0:
            found.setdefault(pod.owner_uid, []).append(number)
    return found


def _preparing(found: Mapping[str, Any]) -> Preparing:
    return Preparing(str(found["set"]), *_numbers(found, "before", "after"))


def _record(found: Mapping[str, Any]) -> Record:
    last, opened, ran = found.get("last"), found.get("open"), found.get("everRan")
    return Record(
        uid=str(found["uid"]),
        last=None if last is None else _seconds(last),
        unseen=Open(_seconds(opened["at"]), *_numbers(opened, "before", "after", "generation")) if opened else None,
        ever_ran=None if ran is None else _numbers(found, "everRan")[0],
        prepared={str(name): str(uid) for name, uid in (found.get("prepared") or {}).items()},
    )


def _written(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {"uid": record.uid}
    if record.last is not None:
        found["last"] = timestamp(record.last)
    if opened := record.unseen:
        found["open"] = {**vars(opened), "at": micro_timestamp(opened.at)}
    if record.ever_ran is not None:
        found["everRan"] = record.ever_ran
    if record.prepared:
        found["prepared"] = dict(sorted(record.prepared.items()))
    return found


def _numbers(of: Mapping[str, Any], *names: str) -> list[int]:
    found = [of[name] for name in names]
    for each in found:
        if not isinstance(each, int) or isinstance(each, bool):
            raise ValueError(f"{each!r} is not a number")
    return found


def _seconds(text: object) -> float:
    seconds = seconds_of(text)
    if seconds is None:
        raise ValueError(f"{text!r} is not a time")
    return seconds


def _text(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))
