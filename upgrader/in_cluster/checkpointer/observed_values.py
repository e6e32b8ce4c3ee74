"""What is known of a workload: values without behaviour, shared by the parts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from upgrader.onhost.node.workload_policy import Workload


class ApiState(enum.Enum):
    """Whether the API server that this node's kubelet talks to answers."""

    ANSWERING = "answering"
    AWAY = "away"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ParentPod:
    """A pod on this node that asks for a checkpoint, as the API knows it.

    `digest` identifies what would be kept of it (manifest, files, images); None while that isn't known.
    `created` is RFC 3339, so it sorts. `problem` is (reason, message) where the pod can't be kept.
    """

    workload: Workload
    namespace: str
    name: str
    uid: str
    created: str
    ready: bool
    terminating: bool
    digest: str | None = None
    problem: tuple[str, str] | None = None


@dataclass(frozen=True)
class Content:
    """A Secret or ConfigMap: keys and values, and when it was last changed (RFC 3339, by the API server's clock)."""

    data: Mapping[str, bytes]
    changed: str

    def __repr__(self) -> str:
        return f"Content({sorted(self.data)}, changed={self.changed!r})"  # never the values


@dataclass(frozen=True)
class Owner:
    """A Deployment, DaemonSet or StatefulSet. `settled`: its rollout is complete, so that each of its pods is of its
    present template. `release`, `revision`: Helm's, as far as its annotations name them.
    """

    settled: bool
    release: str
    revision: str


@dataclass(frozen=True)
class Presence:
    """A workload's own pods (never our standby pod) on this node, as the container runtime knows them.

    `running`: IDs of running containers. `up`: IDs of the containers of pods of which every container runs.
    `sandbox`: whether any of its sandboxes is ready, so that a living kubelet may restart containers in it.
    `unknown`: the runtime itself doesn't know a container's state.
    """

    running: frozenset[str] = frozenset()
    up: frozenset[str] = frozenset()
    sandbox: bool = False
    unknown: bool = False


@dataclass(frozen=True)
class StandbySeen:
    """A standby pod whose manifest is in place. `number`: its generation; `presence`: what runs of that generation's
    pod.

    `blocked`: what that generation needs doesn't answer (etcd, for kube-apiserver).
    """

    number: int
    presence: Presence
    blocked: bool = False


@dataclass(frozen=True)
class LeaseSeen:
    """A Lease as last read: `stamp` changes with each renewal, `ours` when our own standby pod holds it."""

    stamp: str
    ours: bool


@dataclass(frozen=True)
class Observation:
    """One observation. `now` is monotonic seconds. `parents` counts only while the API answers.

    `runtime` is None when the container runtime couldn't be asked; a workload that isn't in it has no pod.
    A workload that isn't in `leases` has a lease of which nothing is known; one that isn't in `standbys` has no
    manifest in place, or the runtime is unknown. `ownerless`: workloads that don't exist according to the API.
    `barred`: workloads of which no standby pod may run here, each with the reason; it is known without the API.
    `unneeded`: workloads that have no pod here and aren't meant to, while others do their work.
    """

    now: float
    api: ApiState
    parents: tuple[ParentPod, ...] = ()
    runtime: Mapping[Workload, Presence] | None = None
    leases: Mapping[Workload, LeaseSeen] = field(default_factory=dict)
    standbys: Mapping[Workload, StandbySeen] = field(default_factory=dict)
    ownerless: frozenset[Workload] = frozenset()
    barred: Mapping[Workload, str] = field(default_factory=dict)
    unneeded: frozenset[Workload] = frozenset()
