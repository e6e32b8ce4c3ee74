"""Pods and StatefulSets, as far as decisions need them, read from the API's objects."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upgrader.contract.times import seconds_of

__all__ = [
    "FINISHED",
    "REVISION_LABEL",
    "Pod",
    "StatefulSet",
    "absent",
    "natural",
    "not_ready",
    "ordinal",
    "pod",
    "stateful_set",
]

REVISION_LABEL = "controller-revision-hash"
FINISHED = ("Succeeded", "Failed")
"""The phases of a pod that has ended by itself."""
_UNIQUE_NAMES = ("apps/DaemonSet", "apps/ReplicaSet", "batch/Job", "/ReplicationController")
"""Kubernetes' own owners whose pods' names are generated, and don't come again. Those of another group's Job may."""
_DIGITS = len(str(2**31))
_NO_START = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RegistryUnavailable",
        "RunContainerError",
        "SignatureValidationFailed",
    }
)
"""The kubelet's reasons for a waiting container that a new template can fix."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod. `ready_since`: seconds since the epoch, None while its condition Ready isn't True, and infinity while the
    condition doesn't say since when: then it hasn't been Ready for any time.

    `containers_ready`: no container that the kubelet reports is unready. `finished`: Succeeded or Failed. `stuck`: it
    won't get ready by itself soon, as it has failed, has no node, or a container that doesn't start. `evicted`: the API
    server has carried out an eviction, which it writes down just before it deletes the pod.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    owner_group: str = ""
    node: str = ""
    ip: str = ""
    phase: str = ""
    scheduled: bool = False
    containers_ready: bool = True
    ready_since: float | None = None
    terminating: bool = False
    stuck: bool = False
    evicted: bool = False

    @property
    def revision(self) -> str:
        """The ControllerRevision that it was made from; empty if no label says so."""
        return self.labels.get(REVISION_LABEL, "")

    @property
    def name_returns(self) -> bool:
        """Whether another pod may get its name: a StatefulSet's, an operator's, or one that nothing owns."""
        return f"{self.owner_group}/{self.owner_kind}" not in _UNIQUE_NAMES

    @property
    def finished(self) -> bool:
        """Whether it has ended by itself."""
        return self.phase in FINISHED

    @property
    def goes_anyway(self) -> bool:
        """Whether it is gone soon without anybody's eviction."""
        return self.terminating or self.finished

    @property
    def ready(self) -> bool:
        """Running, Ready with all its containers, and here to stay; what isn't known isn't ready."""
        return (
            self.phase == "Running" and self.ready_since is not None and self.containers_ready and not self.terminating
        )


@dataclass(frozen=True, slots=True)
class StatefulSet:
    """A StatefulSet: `replicas` of its spec, what its status counts, and the two revisions.

    `available_replicas`: how many of its pods have been Ready for `min_ready_seconds`, by its controller's clock.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    update_strategy: str = "RollingUpdate"
    service_name: str = ""
    min_ready_seconds: int = 0
    first_ordinal: int = 0
    generation: int = 0
    observed_generation: int = 0
    status_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    terminating: bool = False

    @property
    def ordinals(self) -> range:
        """Those that its spec wants."""
        return range(self.first_ordinal, self.first_ordinal + self.replicas)

    @property
    def observed(self) -> bool:
        """Whether its controller has seen this very spec, so that the status' revisions belong to it."""
        return bool(self.update_revision) and self.observed_generation >= self.generation


def pod(item: Mapping[str, Any]) -> Pod:
    """A pod from the API's object."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    ready = conditions.get("Ready", {})
    owner: Mapping[str, Any] = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), {})
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        owner_kind=owner.get("kind", ""),
        owner_name=owner.get("name", ""),
        owner_uid=owner.get("uid", ""),
        owner_group=str(owner.get("apiVersion") or "").rpartition("/")[0],
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "",
        scheduled=conditions.get("PodScheduled", {}).get("status") == "True",
        containers_ready=all(c.get("ready") is True for c in status.get("containerStatuses") or ()),
        ready_since=_since(ready),
        terminating=bool(metadata.get("deletionTimestamp")),
        stuck=status.get("phase") == "Failed"
        or conditions.get("PodScheduled", {}).get("status") == "False"
        or any(map(_does_not_start, _containers(status))),
        evicted=_evicted(conditions.get("DisruptionTarget", {})),
    )


def _evicted(disrupted: Mapping[str, Any]) -> bool:
    return disrupted.get("status") == "True" and disrupted.get("reason") == "EvictionByEvictionAPI"


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()


def _does_not_start(container: Mapping[str, Any]) -> bool:
    waiting = (container.get("state") or {}).get("waiting") or {}
    return waiting.get("reason") in _NO_START


def _since(ready: Mapping[str, Any]) -> float | None:
    if ready.get("status") != "True":
        return None
    since = seconds_of(ready.get("lastTransitionTime"))
    return math.inf if since is None else since


def stateful_set(item: Mapping[str, Any]) -> StatefulSet:
    """A StatefulSet from the API's object."""
    metadata, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    replicas = spec.get("replicas")
    return StatefulSet(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        replicas=1 if replicas is None else replicas,
        update_strategy=(spec.get("updateStrategy") or {}).get("type", "RollingUpdate"),
        service_name=spec.get("serviceName") or "",
        min_ready_seconds=spec.get("minReadySeconds") or 0,
        first_ordinal=(spec.get("ordinals") or {}).get("start", 0),
        generation=metadata.get("generation", 0),
        observed_generation=status.get("observedGeneration", 0),
        status_replicas=status.get("replicas", 0),
        ready_replicas=status.get("readyReplicas", 0),
        available_replicas=status.get("availableReplicas", 0),
        current_revision=status.get("currentRevision") or "",
        update_revision=status.get("updateRevision") or "",
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def not_ready(which: StatefulSet, pods: Iterable[Pod]) -> int:
    """How many of the set's own pods aren't ready or aren't there: as its status says, or as its pods do if worse.

    Those that its spec wants count as missing, as its status lags right after a scale-up. With `minReadySeconds`, a pod
    that hasn't been Ready for so long isn't ready, as no other pod of the set may be replaced before.
    """
    own = list(pods)
    seen = absent(which, own) + sum(not p.ready for p in own)
    ready = which.available_replicas if which.min_ready_seconds else which.ready_replicas
    return max(which.status_replicas - ready, seen)


def absent(which: StatefulSet, pods: Iterable[Pod]) -> int:
    """How many of the pods that the set's spec wants aren't there. Its others, which are to be removed, don't count.

    After another `spec.ordinals.start`, it has both at a time.
    """
    return which.replicas - sum(ordinal(p.name) in which.ordinals for p in pods)


def ordinal(pod_name: str) -> int:
    """The number of a StatefulSet's pod; -1 for what is none."""
    number = pod_name.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= _DIGITS else -1


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key for the order in which people count: `a-2` before `a-10`."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in parts)
