"""A fleet: its clusters, and the campaign that upgrades them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from upgrader.fleet.selectors import Selector
from upgrader.fleet.windows import Exclusion, Window
from upgrader.model.health_before import NONE, IntOrPercent
from upgrader.model.natural_order import natural
from upgrader.model.observability import ObservabilitySettings
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

__all__ = [
    "Action",
    "AfterUnreachable",
    "Domains",
    "Fleet",
    "FleetCluster",
    "Goal",
    "JobSettings",
    "MaxFailures",
    "OnUnreachable",
    "Stage",
]

Action = Literal[RunKind.UPGRADE, RunKind.FINALIZE]
AfterUnreachable = Literal["skip", "stop"]


@dataclass(frozen=True)
class MaxFailures:
    """How many clusters of a stage may have failed in each way while others still begin."""

    blocked: IntOrPercent = NONE
    rolled_back: IntOrPercent = NONE
    broken: IntOrPercent = NONE
    interrupted: IntOrPercent = NONE
    same_cause: int = 1
    """Of the whole campaign: how many clusters may have failed for one and the same cause."""


@dataclass(frozen=True)
class OnUnreachable:
    """What becomes of a cluster whose API doesn't answer before its run."""

    wait_seconds: float = 48 * 3600.0
    then: AfterUnreachable = "stop"


@dataclass(frozen=True)
class Stage:
    """Clusters that are upgraded after those of the stages before."""

    name: str
    selector: Selector
    max_concurrency: IntOrPercent
    max_failures: MaxFailures = MaxFailures()
    on_unreachable: OnUnreachable = OnUnreachable()
    approval: bool = False
    """Whether a person has to approve it before its first cluster begins."""
    soak_seconds: float = 0.0
    """How long its clusters must have run at the target before the next stage; 0: it isn't waited for."""
    soak_requests: int = 0
    """How many requests for objects each of them must have answered by then, since its run ended."""
    soak_gates: tuple[str, ...] = ()
    """Metric gates of each cluster's folder that must pass until then."""

    soak_restart: bool = False
    """Whether a pod of each cluster's control plane must have been restarted until then."""

    @property
    def soaks(self) -> bool:
        """Whether it is waited for anything once its clusters are done."""
        return bool(self.soak_seconds or self.soak_requests or self.soak_gates or self.soak_restart)


@dataclass(frozen=True)
class Domains:
    """The label that names a cluster's failure domain; clusters of two domains are never upgraded at once."""

    label: str
    one_at_a_time: bool = True


@dataclass(frozen=True)
class JobSettings:
    """Where runs are Jobs: on a management cluster."""

    kubeconfig: Path
    """Of the management cluster."""
    image: str
    """With a digest."""
    namespace_prefix: str = "fleet-"
    """A cluster's namespace is this and the cluster's name."""
    queue: str = ""
    """Kueue's LocalQueue in each of these namespaces; "": none."""
    grace_seconds: int = 3600
    """What a run gets to end its step, when its pod is to be deleted."""


@dataclass(frozen=True)
class FleetCluster:
    """A cluster of the inventory."""

    name: str
    folder: Path
    uid: str
    """Of the namespace kube-system."""
    labels: Mapping[str, str]
    place: str = field(default="", compare=False)
    """`FILE:LINE: ` of its UID in the inventory."""


@dataclass(frozen=True)
class Goal:
    """What each cluster's run is for: to reach `target`, or, at `target`, to end its emulation of the old minor."""

    kind: Action
    target: KubernetesVersion

    @property
    def finalizes(self) -> bool:
        return self.kind is RunKind.FINALIZE

    @property
    def command(self) -> tuple[str, ...]:
        """Of each cluster's run: one that has waited in a queue may find another version than the campaign has."""
        return ("finalize", "--only-at", str(self.target)) if self.finalizes else ("run", "--to", str(self.target))

    @property
    def to_end(self) -> str:
        """The commands that end an interrupted run."""
        return "finalize" if self.finalizes else "resume, or rollback"

    @property
    def place(self) -> str:
        """In the names of campaigns."""
        return f"finalize-{self.target}" if self.finalizes else str(self.target)

    @property
    def reached(self) -> str:
        """What a cluster then does."""
        return f"run {self.target}" + (" and emulate no older version" if self.finalizes else "")

    def __str__(self) -> str:
        return f"finalization of {self.target}" if self.finalizes else f"upgrade to {self.target}"


@dataclass(frozen=True)
class Fleet:
    """What `fleet.yaml` and `fleet-inventory.yaml` say; every cluster of it is in exactly one stage."""

    target: KubernetesVersion
    stages: tuple[Stage, ...]
    clusters: tuple[FleetCluster, ...]
    """Without those that are excluded, in the order of the inventory."""
    excluded: tuple[str, ...] = ()
    domains: Domains | None = None
    windows: tuple[Window, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    expected_seconds: float = 1800.0
    """How long a run is thought to take at least, whatever the campaign has measured."""
    commands: frozenset[str] = frozenset()
    """Those that kubeconfigs may run for credentials."""
    observability: ObservabilitySettings = field(default_factory=ObservabilitySettings)
    """Where metrics and messages go; its `cluster` is the fleet's name in them."""
    jobs: JobSettings | None = None
    """None: runs can only be processes of this machine."""
    action: Action = RunKind.UPGRADE

    @property
    def goal(self) -> Goal:
        """What each cluster's run is for."""
        return Goal(self.action, self.target)

    @cached_property
    def stage_of(self) -> Mapping[str, Stage]:
        """By the cluster's name."""
        return {
            cluster.name: next(stage for stage in self.stages if stage.selector.selects(cluster.labels))
            for cluster in self.clusters
        }

    @cached_property
    def members(self) -> Mapping[str, tuple[FleetCluster, ...]]:
        """By the stage's name."""
        return {
            stage.name: tuple(each for each in self.clusters if self.stage_of[each.name] is stage)
            for stage in self.stages
        }

    @cached_property
    def listed(self) -> Mapping[str, tuple[FleetCluster, ...]]:
        """As `members`, in the order in which clusters are listed for people; they begin in the inventory's."""
        return {
            stage: tuple(sorted(members, key=lambda each: natural(each.name)))
            for stage, members in self.members.items()
        }

    @cached_property
    def by_name(self) -> Mapping[str, FleetCluster]:
        """Its clusters."""
        return {cluster.name: cluster for cluster in self.clusters}

    def domain_of(self, name: str) -> str:
        """The failure domain of a cluster; "" where domains may be upgraded at once."""
        if self.domains is None or not self.domains.one_at_a_time:
            return ""
        return self.by_name[name].labels[self.domains.label]
