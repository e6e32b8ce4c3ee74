"""Deployments, DaemonSets, StatefulSets and their pods as frozen values, parsed from the API's JSON.

Only what the gates need is kept. Missing fields have the API's meaning: absent counts are 0, an absent condition is
not true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any, Literal

from upgrader.contract.checkpoints import CHECKPOINT_OF, CONDITION
from upgrader.contract.flags import command_line
from upgrader.model.quantity import quantity

__all__ = [
    "CHECKPOINT_OF",
    "ROLLOUT_GROUP",
    "Container",
    "Ordered",
    "Pod",
    "Termination",
    "Workload",
    "WorkloadKind",
    "WorkloadRef",
    "cpu_limit",
    "parse_time",
    "selector_of",
    "selects",
]

ROLLOUT_GROUP = "rollout-group"
"""Label of StatefulSets whose pods are replaced one set after the other, by guard or rollout-operator."""

WorkloadKind = Literal["Deployment", "DaemonSet", "StatefulSet"]


@dataclass(frozen=True)
class WorkloadRef:
    """Names a workload."""

    kind: WorkloadKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Termination:
    """How a container ended."""

    exit_code: int
    reason: str
    message: str
    signal: int = 0
    lasted_seconds: float | None = None
    """How long the container had run; None when it never did, or the kubelet doesn't know."""

    @property
    def error(self) -> bool:
        """Whether it ended other than by exiting with status 0."""
        return self.exit_code != 0 or self.signal != 0

    @classmethod
    def parse(cls, state: Mapping[str, Any] | None) -> Termination | None:
        """From a `terminated` container state; None when there is none."""
        if not state:
            return None
        began, ended = parse_time(state.get("startedAt")), parse_time(state.get("finishedAt"))
        return cls(
            exit_code=int(state.get("exitCode", 0)),
            reason=state.get("reason", ""),
            message=state.get("message", ""),
            signal=int(state.get("signal", 0)),
            # The API gives 1970 as the start of what never started.
            lasted_seconds=(ended - began).total_seconds() if began and ended and began.year > 1970 else None,
        )


@dataclass(frozen=True)
class Container:
    """One container of a pod, as the kubelet last reported it."""

    name: str
    image: str
    init: bool
    ready: bool
    restarts: int
    running_since: datetime | None
    """When the current instance started; None if it isn't running."""
    waiting_reason: str = ""
    waiting_message: str = ""
    terminated: Termination | None = None
    """How the current instance ended, until a new one starts."""
    last: Termination | None = None
    """How the previous instance ended."""
    spec_image: str = ""
    """The image of the pod's spec; `image` is whichever of that image's names the runtime reports."""
    image_id: str = ""
    """As the runtime names what runs: `REPOSITORY@sha256:…`, or the image's own ID; "" if it isn't reported."""
    command: tuple[str, ...] = ()
    """What the pod's spec starts it with, with its arguments."""
    cpu_limit: float = inf
    """How many CPUs it may use."""

    @classmethod
    def parse(cls, status: Mapping[str, Any], *, init: bool, spec: Mapping[str, Any]) -> Container:
        """From an entry of `containerStatuses` or `initContainerStatuses`, and its container in the pod's spec."""
        state = status.get("state") or {}
        waiting = state.get("waiting") or {}
        return cls(
            name=status["name"],
            image=status.get("image", ""),
            init=init,
            ready=bool(status.get("ready")),
            restarts=int(status.get("restartCount", 0)),
            running_since=parse_time((state.get("running") or {}).get("startedAt")),
            waiting_reason=waiting.get("reason", ""),
            waiting_message=waiting.get("message", ""),
            terminated=Termination.parse(state.get("terminated")),
            last=Termination.parse((status.get("lastState") or {}).get("terminated")),
            spec_image=str(spec.get("image") or ""),
            image_id=status.get("imageID", ""),
            command=command_line(spec),
            cpu_limit=cpu_limit(spec),
        )


@dataclass(frozen=True)
class Pod:
    """One pod."""

    namespace: str
    name: str
    uid: str
    node: str
    """"" while it isn't scheduled."""
    owner: str
    """The uid of its controller; "" for a bare or a static pod."""
    workload: str
    """What it belongs to, as `DaemonSet cilium` or `Deployment coredns`; `Pod NAME` for a bare or a static pod."""
    labels: Mapping[str, str]
    phase: str
    priority_class: str
    deleting: bool
    ready: bool
    node_address: str
    """The node's own address, on which a pod in the host network listens; "" while it isn't known."""
    unschedulable: str
    """The scheduler's message while it finds no node for the pod, else ""."""
    awaited_scheduler: str
    """The scheduler that the spec names, while it has reported nothing about the pod; else ""."""
    message: str
    """The pod's own status message (evicted, preempted, admission refused), mostly ""."""
    no_checkpoint: str
    """Why the pod-checkpointer has no checkpoint of it, in its words; "" if it has one, or needs none."""
    containers: tuple[Container, ...]
    """Init containers first, then the others, each in the order of the spec."""

    @property
    def finished(self) -> bool:
        """Whether it completed, so that it no longer counts for the workload's health."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_checkpoint(self) -> bool:
        """Whether it is a standby pod of the pod-checkpointer."""
        return CHECKPOINT_OF in self.labels

    @classmethod
    def parse(cls, pod: Mapping[str, Any]) -> Pod:
        """From a `v1` Pod."""
        meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        conditions = {item["type"]: item for item in status.get("conditions") or ()}
        scheduled = conditions.get("PodScheduled", {})
        kept = conditions.get(CONDITION, {})
        waits = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
        return cls(
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta.get("uid", ""),
            node=spec.get("nodeName", ""),
            owner=str(_controller(meta).get("uid", "")),
            workload=_workload(meta),
            labels=meta.get("labels") or {},
            phase=status.get("phase", ""),
            priority_class=spec.get("priorityClassName", ""),
            deleting="deletionTimestamp" in meta,
            ready=conditions.get("Ready", {}).get("status") == "True",
            node_address=status.get("hostIP", ""),
            unschedulable=scheduled.get("message", "") if waits else "",
            awaited_scheduler="" if scheduled or spec.get("nodeName") else spec.get("schedulerName", ""),
            message=status.get("message", ""),
            no_checkpoint=kept.get("message", "") if kept.get("status") == "False" else "",
            containers=(
                *_containers(spec.get("initContainers"), status.get("initContainerStatuses"), init=True),
                *_containers(spec.get("containers"), status.get("containerStatuses"), init=False),
            ),
        )


@dataclass(frozen=True)
class Ordered:
    """How a StatefulSet's pods get a new revision."""

    revision: str
    """The revision that its pods should have (`status.updateRevision`); "" if its controller hasn't reported it."""
    kept: int = 0
    """How many pods, from the first one on, keep their revision (`partition`)."""
    first_ordinal: int = 0
    """The number in the name of its first pod."""
    min_ready_seconds: int = 0
    """How long a pod must have been Ready until it is available."""

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Ordered:
        """From an `apps/v1` StatefulSet."""
        spec, status = found["spec"], found.get("status") or {}
        strategy = spec.get("updateStrategy") or {}
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        return cls(
            revision=status.get("updateRevision") or "",
            kept=0 if waits_for_deletion(found) else partition,
            first_ordinal=int((spec.get("ordinals") or {}).get("start") or 0),
            min_ready_seconds=int(spec.get("minReadySeconds") or 0),
        )

    def keeps(self, name: str) -> bool:
        """Whether the pod of that name may have any revision."""
        number = name.rpartition("-")[2]
        return number.isdigit() and int(number) - self.first_ordinal < self.kept


@dataclass(frozen=True)
class Workload:
    """A Deployment, DaemonSet or StatefulSet: its desired state, and what its controller counts."""

    ref: WorkloadRef
    uid: str
    generation: int
    observed_generation: int
    selector: str
    """Its pods' label selector, in the form of the API's `labelSelector`."""
    desired: int
    total: int
    """All its pods, including old revisions (a DaemonSet: the nodes that have at least one)."""
    updated: int
    ready: int
    available: int
    trouble: str
    """Why its controller can't create pods (quota, a webhook, …), else ""."""
    on_delete: bool = False
    """Whether a pod gets a new revision only after its deletion by a client (the strategy `OnDelete`)."""
    ordered: Ordered | None = None
    """Fields that only a StatefulSet has."""

    @property
    def observed(self) -> bool:
        """Whether the controller has observed the present spec: until then, all counts are for the previous one."""
        return self.observed_generation >= self.generation

    @classmethod
    def parse(cls, kind: WorkloadKind, found: Mapping[str, Any]) -> Workload:
        """From an `apps/v1` Deployment, DaemonSet or StatefulSet."""
        meta, spec, status = found["metadata"], found["spec"], found.get("status") or {}
        daemon = kind == "DaemonSet"
        failure: Mapping[str, Any] = next(
            (c for c in status.get("conditions") or () if c["type"] == "ReplicaFailure"), {}
        )
        return cls(
            ref=WorkloadRef(kind, meta.get("namespace", ""), meta["name"]),
            uid=meta.get("uid", ""),
            generation=int(meta.get("generation", 0)),
            observed_generation=int(status.get("observedGeneration", 0)),
            selector=selector_of(spec.get("selector") or {}),
            desired=int(status.get("desiredNumberScheduled", 0) if daemon else spec.get("replicas", 1)),
            total=int(status.get("currentNumberScheduled" if daemon else "replicas", 0)),
            updated=int(status.get("updatedNumberScheduled" if daemon else "updatedReplicas", 0)),
            ready=int(status.get("numberReady" if daemon else "readyReplicas", 0)),
            available=int(status.get("numberAvailable" if daemon else "availableReplicas", 0)),
            trouble=failure.get("message", "") if failure.get("status") == "True" else "",
            on_delete=waits_for_deletion(found),
            ordered=Ordered.parse(found) if kind == "StatefulSet" else None,
        )


def waits_for_deletion(item: Mapping[str, Any]) -> bool:
    """Whether a workload's controller replaces no pod of an older revision before a client has deleted it: a DaemonSet
    or StatefulSet with the strategy `OnDelete`.
    """
    return ((item.get("spec") or {}).get("updateStrategy") or {}).get("type") == "OnDelete"


def cpu_limit(container: Mapping[str, Any]) -> float:
    """How many CPUs a container of a pod's spec may use; infinity for no limit."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return quantity(str(limits.get("cpu") or 0)) or inf


def parse_time(text: str | None) -> datetime | None:
    """An API timestamp (`2026-01-31T10:00:00Z`, with or without a fraction); None for none."""
    return datetime.fromisoformat(text) if text else None


def _controller(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    for owner in meta.get("ownerReferences") or ():
        # A static pod's mirror is "controlled" by its Node, which is no workload.
        if owner.get("controller") and owner.get("kind") != "Node":
            found: Mapping[str, Any] = owner
            return found
    return {}


def _workload(meta: Mapping[str, Any]) -> str:
    owner = _controller(meta)
    if not owner:
        return f"Pod {meta['name']}"
    kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
    revision = (meta.get("labels") or {}).get("pod-template-hash")
    if kind == "ReplicaSet" and revision:
        # A Deployment's: its name is the same for every revision.
        return f"Deployment {name.removesuffix(f'-{revision}')}"
    return f"{kind} {name}"


def _containers(
    specs: list[Mapping[str, Any]] | None, statuses: list[Mapping[str, Any]] | None, *, init: bool
) -> tuple[Container, ...]:
    """In the spec's order: the API sorts statuses by name."""
    given = {spec["name"]: spec for spec in specs or ()}
    found = {
        status["name"]: Container.parse(status, init=init, spec=given.get(status["name"], {}))
        for status in statuses or ()
    }
    order = list(given)
    return tuple(sorted(found.values(), key=lambda c: order.index(c.name) if c.name in order else len(order)))


def selector_of(selector: Mapping[str, Any]) -> str:
    """A label selector in the form of the API's `labelSelector`."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        key, values = item["key"], ",".join(item.get("values") or ())
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[item["operator"]]
        )
    return ",".join(terms)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels; an empty one matches all. As in Kubernetes, NotIn also matches if
    the label is missing.
    """
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for item in selector.get("matchExpressions") or ():
        value, values = labels.get(item["key"]), item.get("values") or ()
        holds = {
            "In": value is not None and value in values,
            "NotIn": value is None or value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[item["operator"]]:
            return False
    return True
