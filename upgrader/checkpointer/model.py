"""What is known of a workload: values without behaviour, shared by the parts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Workload:
    """What a checkpoint belongs to, whatever its pods are called: the owner's namespace and name.

    The kind is left out on purpose: a DaemonSet that becomes a Deployment of the same name is the same workload, of
    which only one copy may run.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Policy(enum.Enum):
    """When a workload's copy runs."""

    API_AWAY = "api-away"
    """While the API is away and the workload doesn't run on this node: kube-apiserver."""
    LEASE = "lease"
    """While the API answers and nobody in the cluster holds the workload's lease: controller-manager, scheduler."""
    ALWAYS = "always"
    """The checkpointer itself."""


class ApiState(enum.Enum):
    """Whether the API server that this node's kubelet talks to answers."""

    ANSWERING = "answering"
    AWAY = "away"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ParentPod:
    """A pod on this node that asks for a checkpoint, as the API knows it.

    ``digest`` identifies what would be kept of it (manifest, files, images); None while that isn't known.
    ``created`` is RFC 3339, so it sorts. ``problem`` is (reason, message) where the pod can't be kept.
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
    """A Deployment, DaemonSet or StatefulSet. ``settled``: its roll-out is complete, so that each of its pods is of its
    present template. ``release``, ``revision``: Helm's, as far as its chart says them.
    """

    settled: bool
    release: str
    revision: str


@dataclass(frozen=True)
class Presence:
    """A workload's own pods (never our copy) on this node, as the container runtime knows them.

    ``running``: IDs of running containers. ``up``: IDs of the containers of pods of which every container runs.
    ``sandbox``: whether any of its sandboxes is ready, so that a living kubelet may restart containers in it.
    ``unknown``: the runtime itself doesn't know a container's state.
    """

    running: frozenset[str] = frozenset()
    up: frozenset[str] = frozenset()
    sandbox: bool = False
    unknown: bool = False


@dataclass(frozen=True)
class CopySeen:
    """A copy whose manifest is in place. ``number``: its generation; ``presence``: what runs of that generation's pod.

    ``blocked``: what every generation of it would wait for doesn't answer (etcd, for kube-apiserver).
    """

    number: int
    presence: Presence
    blocked: bool = False


@dataclass(frozen=True)
class LeaseSeen:
    """A Lease as last read: ``stamp`` changes with each renewal, ``ours`` when our own copy holds it."""

    stamp: str
    ours: bool


@dataclass(frozen=True)
class Observation:
    """One look. ``now`` is monotonic seconds. ``parents`` counts only while the API answers.

    ``runtime`` is None when the container runtime couldn't be asked; a workload that isn't in it has no pod.
    A workload that isn't in ``leases`` has a lease of which nothing is known; one that isn't in ``copies`` has no
    manifest in place, or the runtime is unknown. ``ownerless``: workloads of which the API says that they don't exist.
    """

    now: float
    api: ApiState
    parents: tuple[ParentPod, ...] = ()
    runtime: Mapping[Workload, Presence] | None = None
    leases: Mapping[Workload, LeaseSeen] = field(default_factory=dict)
    copies: Mapping[Workload, CopySeen] = field(default_factory=dict)
    ownerless: frozenset[Workload] = frozenset()


@dataclass(frozen=True)
class Generation:
    """A generation on disk.

    ``intact``: every file is there and has the recorded checksum. ``images``: whether the node has all its images; None
    when that isn't known. ``failed``: it was started as a copy, and didn't stay up.
    """

    number: int
    digest: str
    intact: bool = True
    images: bool | None = None
    failed: bool = False


@dataclass(frozen=True)
class Holding:
    """What the disk has of one workload. ``generations`` ascend by number.

    ``active``: our manifest is where the kubelet reads it. ``active_number``: the generation whose manifest it is byte
    for byte; None when it is that of none.
    """

    policy: Policy
    generations: tuple[Generation, ...] = ()
    active: bool = False
    active_number: int | None = None

    @property
    def intact(self) -> tuple[Generation, ...]:
        """Generations that can be started, oldest first."""
        return tuple(g for g in self.generations if g.intact)

    @property
    def last_good(self) -> Generation | None:
        """The last-known-good: the newest intact one that hasn't failed as a copy; the newest where all have."""
        return next((g for g in reversed(self.intact) if not g.failed), self.intact[-1] if self.intact else None)

    @property
    def best(self) -> Generation | None:
        """The one to start: before all its images must be here, as a registry may be as far away as the API."""
        return max(self.intact, key=lambda g: (g.images is not False, not g.failed, g.number), default=None)


@dataclass(frozen=True)
class Settings:
    """Durations in seconds. ``keep``: how many distinct good generations stay on disk for each workload."""

    ready_for: float = 20.0
    grace: float = 20.0
    release_after: float = 30.0
    keep: int = 3

    @property
    def crash_grace(self) -> float:
        """How long a workload may fail to stay up, with a living kubelet restarting it, before its copy starts; and how
        long a copy may, before an older one takes its place.
        """
        return 3 * self.grace
