"""Zone-aware budgets: an eviction is allowed while no other zone is short of a pod.

A zone is a StatefulSet that the budget's selector finds. By zone, every other zone must be whole, and its own may lack
fewer than `maxUnavailable` pods. By partition, it is the pods of the same partition in the other zones that count, so
that other partitions may be short at the same time. What is reserved in the budget's ledger counts as gone already.

The pod that is to go is never counted itself: whether it is ready or not, it will be gone. One that is Pending goes
whatever the zones lack. It is reserved all the same, as it may be ready by the time it goes. So is one that terminates
or has ended: the eviction may hang until the next pod of its name is ready.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upgrader.contract.times import duration_of, seconds_of
from upgrader.in_cluster.guard.core.admission import (
    BAD_REQUEST,
    FORBIDDEN,
    TOO_MANY_REQUESTS,
    AdmissionRequest,
    Answer,
    allow,
    deny,
)
from upgrader.in_cluster.guard.core.ledger import Judgement, Ledger
from upgrader.in_cluster.guard.core.partitions import InvalidRegex, PartitionRegex
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet, absent

__all__ = [
    "READY_TIME",
    "InvalidBudget",
    "Rollout",
    "State",
    "ZoneBudget",
    "budget_of",
    "judge",
    "misdirected",
    "read",
    "validate",
]

READY_TIME = "grafana.com/ready-time"
KIND = "ZoneAwarePodDisruptionBudget"


@dataclass(frozen=True)
class ZoneBudget:
    """A budget that is right. One of `most` (pods) and `percent` counts; `delay` is in seconds."""

    namespace: str
    name: str
    selector: Mapping[str, str]
    most: int | None = 1
    percent: int | None = None
    partition: PartitionRegex | None = None
    delay: float = 0.0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class InvalidBudget:
    """A budget that contradicts itself, but is stored; the evictions of the pods that it selects are refused."""

    namespace: str
    name: str
    why: str
    selector: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class State:
    """What is known of a namespace: its StatefulSets, and their pods by their owner's UID.

    `evicted`: the UIDs of pods that an eviction was seen to delete. `ready_for`: for how many seconds pods have been
    Ready that were seen to become so, by UID: a clock that is wrong lets none of them look older.
    """

    sets: tuple[StatefulSet, ...]
    pods: Mapping[str, tuple[Pod, ...]]
    evicted: Container[str] = ()
    ready_for: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rollout:
    """That it is a rollout which deletes: its set's own limit counts where the budget says 0. `free`: not Ready."""

    max_unavailable: int
    free: bool = False


def read(item: Mapping[str, Any]) -> ZoneBudget | InvalidBudget:
    """A budget from the API's object, right or not."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        return InvalidBudget("", "", "it has no metadata")
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return InvalidBudget(namespace, name, "it has no spec")
    selector = _selector(spec)
    try:
        if selector is None:
            raise ValueError("selector.matchLabels isn't a map of labels")
        most, percent = _whole(spec, "maxUnavailable"), _whole(spec, "maxUnavailablePercentage")
        if most is not None and percent is not None:
            raise ValueError("only one of maxUnavailable and maxUnavailablePercentage may be set")
        if percent is not None and percent > 100:
            raise ValueError(f"maxUnavailablePercentage is {percent}, more than 100")
        partition, delay = _partition(spec), _delay(spec)
        if percent and partition is not None:
            raise ValueError("maxUnavailablePercentage can't be used with podNamePartitionRegex")
        if delay and partition is None:
            raise ValueError("crossZoneEvictionDelay needs podNamePartitionRegex")
    except ValueError as error:
        return InvalidBudget(namespace, name, str(error), selector)
    if most is None and percent is None:
        most = 1
    return ZoneBudget(namespace, name, selector, most, percent, partition, delay)


def validate(request: AdmissionRequest) -> Answer:
    """Whether a budget may be stored, for what the CRD's own rules can't refuse."""
    if request.operation not in ("CREATE", "UPDATE"):
        return allow()
    budget = read(request.object or {})
    if isinstance(budget, InvalidBudget):
        return deny(BAD_REQUEST, f"{KIND} {request.namespace}/{request.name}: {budget.why}")
    return allow()


def misdirected(request: AdmissionRequest) -> Answer | None:
    """A refusal of what is no eviction of a named pod; None for one."""
    if (request.operation, request.resource, request.subresource) != ("CREATE", "pods", "eviction"):
        return deny(BAD_REQUEST, f"{request.operation} of {request.resource}/{request.subresource} is not an eviction")
    if not request.namespace or not request.name:
        return deny(BAD_REQUEST, "the eviction doesn't name a pod")
    return None


def budget_of(pod: Pod, budgets: Iterable[ZoneBudget | InvalidBudget]) -> ZoneBudget | Judgement:
    """The budget to be asked about a pod, or what is answered without one."""
    mine = [b for b in budgets if b.namespace == pod.namespace and _selects(b.selector, pod.labels)]
    if _goes(pod) and not (len(mine) == 1 and isinstance(mine[0], ZoneBudget)):
        return _not_running()  # no eviction is allowed that its own could add to
    if not mine:
        return Judgement(allow(), "pod-not-in-scope")
    if len(mine) > 1:
        names = ", ".join(sorted(map(str, mine)))
        return _no(BAD_REQUEST, "cfg-ambiguous", f"{_name(pod)} is selected by {len(mine)} {KIND}s: {names}")
    budget = mine[0]
    if isinstance(budget, InvalidBudget):
        return _no(BAD_REQUEST, "cfg-invalid", f"{KIND} {budget} is invalid: {budget.why}")
    return budget


def judge(
    pod: Pod, budget: ZoneBudget, state: State, reserved: Ledger, now: float, rollout: Rollout | None = None
) -> Judgement:
    """What the budget says to the pod's going. `reserved`: its ledger, as `admit` hands it over."""
    if _goes(pod):
        return replace(_not_running(), reserves=rollout is None or pod.phase == "Pending")
    zones = sorted(
        (s for s in state.sets if s.namespace == budget.namespace and _selects(budget.selector, s.labels)),
        key=lambda s: s.name,
    )
    own = next((z for z in zones if z.uid == pod.owner_uid), None)
    if own is None:
        owner = f"{pod.owner_kind or 'no owner'} {pod.owner_name}".strip()
        what = f"{_name(pod)} belongs to {owner}, not to a StatefulSet that {KIND} {budget} selects"
        return _no(BAD_REQUEST, "sts-not-found", what)
    most = _most(budget, own)
    if most == 0 and rollout is not None:
        most = 1 if budget.partition else rollout.max_unavailable
    if most == 0 and budget.percent:
        what = f"{own.name} has no replicas in its spec or status, so {budget.percent} % of them can't be computed"
        return _no(TOO_MANY_REQUESTS, "denied", what)
    if most == 0:
        return _no(FORBIDDEN, "max-unavailable-0", f"{KIND} {budget} allows no pod to be unavailable")
    if len(zones) < 2:
        what = f"{KIND} {budget} selects only the StatefulSet {own.name}, but needs two or more"
        return _no(BAD_REQUEST, "min-sts-not-found", what)
    others = [z for z in zones if z is not own]
    if budget.partition:
        partition = budget.partition.partition(pod.name)
        if partition is None:
            what = f"the podNamePartitionRegex of {KIND} {budget} finds no partition in {_name(pod)}"
            return _no(BAD_REQUEST, "partition-not-identified", what)
        count = sum(_missing_of_partition(budget, partition, z, state, reserved, now) for z in others)
        return _within(count, most, f"partition {partition}")
    for zone in others:
        if count := _missing(zone, state, reserved, pod):
            return _within(count, 1, zone.name)
    if rollout is not None and rollout.free and not pod.ready:
        return _yes()
    return _within(_missing(own, state, reserved, pod), most, own.name)


def _most(budget: ZoneBudget, own: StatefulSet) -> int:
    if budget.percent is None:
        return budget.most or 0
    replicas = min(own.replicas, own.status_replicas)
    return max(1, replicas * budget.percent // 100) if replicas and budget.percent else 0


def _missing(zone: StatefulSet, state: State, reserved: Ledger, besides: Pod) -> int:
    """How many of a zone's pods aren't there, aren't ready or may be gone at any time, besides the one in question."""
    pods = state.pods.get(zone.uid, ())
    gone = max(absent(zone, pods), zone.status_replicas - len(pods), 0)
    return gone + sum(p.uid != besides.uid and (not p.ready or reserved.may_take(p, state.evicted)) for p in pods)


def _missing_of_partition(
    budget: ZoneBudget, partition: str, zone: StatefulSet, state: State, reserved: Ledger, now: float
) -> int:
    """How many of a zone's pods of a partition can't be counted on; 1 if the zone has none at all."""
    regex = budget.partition
    assert regex is not None
    pods = [p for p in state.pods.get(zone.uid, ()) if regex.partition(p.name) == partition]
    if not pods:
        return 1
    return sum(
        not p.ready or reserved.may_take(p, state.evicted) or _too_young(p, budget.delay, state, now) for p in pods
    )


def _too_young(pod: Pod, delay: float, state: State, now: float) -> bool:
    """Whether a pod has been ready for less than the delay by anything that is known, or for an unknown time."""
    if not delay:
        return False
    since = [pod.ready_since]
    if READY_TIME in pod.annotations:
        since.append(seconds_of(pod.annotations[READY_TIME]))
    return state.ready_for.get(pod.uid, delay) < delay or any(s is None or now - s < delay for s in since)


def _within(count: int, most: int, where: str) -> Judgement:
    if count < most:
        return _yes()
    return _no(TOO_MANY_REQUESTS, "denied", f"{count} pod{'s' if count > 1 else ''} not ready in {where}")


def _goes(pod: Pod) -> bool:
    """Whether it goes whatever the zones lack."""
    return pod.phase == "Pending" or pod.goes_anyway


def _not_running() -> Judgement:
    return Judgement(allow("no budget applies, because the pod is not running"), "pod-not-ready")


def _yes() -> Judgement:
    return Judgement(allow(), "allowed", reserves=True)


def _no(code: int, why: str, message: str) -> Judgement:
    return Judgement(deny(code, message), why)


def _name(pod: Pod) -> str:
    return f"pod {pod.namespace}/{pod.name}"


def _selects(selector: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(labels.get(key) == value for key, value in selector.items())


def _selector(spec: Mapping[str, Any]) -> Mapping[str, str] | None:
    selector = spec.get("selector")
    labels = selector.get("matchLabels") if isinstance(selector, dict) else None
    right = isinstance(labels, dict) and all(isinstance(v, str) for v in labels.values())
    return labels if right else None


def _whole(spec: Mapping[str, Any], key: str) -> int | None:
    value = spec.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f"{key} isn't a non-negative integer")
    return value


def _partition(spec: Mapping[str, Any]) -> PartitionRegex | None:
    text = spec.get("podNamePartitionRegex")
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise ValueError("podNamePartitionRegex isn't a string")
    try:
        return PartitionRegex.parse(text, _whole(spec, "podNameRegexGroup"))
    except InvalidRegex as error:
        raise ValueError(f"podNamePartitionRegex can't be used: {error}") from None


def _delay(spec: Mapping[str, Any]) -> float:
    text = spec.get("crossZoneEvictionDelay")
    if text is None or text == "":
        return 0.0
    delay = duration_of(text)
    if delay is None:
        raise ValueError("crossZoneEvictionDelay isn't a duration such as 20m")
    return delay
