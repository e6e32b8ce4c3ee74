"""The operator's settings: `upgrader.yaml`, the environment and the flags, merged and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Literal

from upgrader.model.availability import Limits
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.finding import Severity
from upgrader.model.health_before import IntOrPercent
from upgrader.model.node_settings import NodesSettings
from upgrader.model.observability import ObservabilitySettings
from upgrader.model.own_steps import ETCD
from upgrader.model.version import KubernetesVersion

__all__ = [
    "BUILT_IN_CHARTS",
    "DEFAULT_LIMITS",
    "DEFAULT_UNHEALTHY_WORKERS",
    "OF_GUARD",
    "AvailabilitySettings",
    "BackupSettings",
    "GatePolicy",
    "ImageSettings",
    "MetricGateSettings",
    "Degraded",
    "OnFailure",
    "PlaybookSettings",
    "RecoverySettings",
    "RehearsalMode",
    "RehearsalSettings",
    "ReleaseSettings",
    "Settings",
    "StepGate",
    "StepSettings",
    "WorkloadGate",
    "WorkloadGateKind",
]

BUILT_IN_CHARTS = ("pod-checkpointer", "kube-apiserver", "kubernetes")
"""The charts that come with upgrader, in the order in which the default pipeline upgrades them."""

DEFAULT_LIMITS = Limits(max_failed=100, max_gap_seconds=10.0)
"""Ten seconds of failed requests (at 10 requests a second) or without an answer: an outage, rather than a slow disk."""

DEFAULT_UNHEALTHY_WORKERS = IntOrPercent(percent=10)
"""A node in ten reboots, or is replaced, while a large cluster is upgraded."""

_TENTH, _FEW, _CONNECTIONS = IntOrPercent(percent=10), 10, 100

_NODES_A_SECOND, _SLOWEST_SECONDS = 300, 5.0
"""On 1,000 nodes, gates are checked every 3.3 s: their kubelets alone send 100 heartbeats a second."""

_ROUNDS_OF_REST = 2.5
"""While one gate is waited for, those that pass are checked in every third round: half of a round is for the checks."""

OnFailure = Literal["rollback-run", "rollback-step", "stop"]
Degraded = Literal["refuse", "allow"]
"""What happens after a failed step: undo the whole run, undo that step only, or leave everything as it is."""


@dataclass(frozen=True)
class GatePolicy:
    """When a gate passes: after `consecutive` successful checks, `interval_seconds` apart, before the deadline."""

    consecutive: int = 3
    interval_seconds: float = 1.0
    deadline_seconds: float = 120.0
    recheck_seconds: float = 0.0
    """How long a passing gate isn't checked again while another one is waited for; 0: it is checked each time."""

    def at_scale(self, nodes: int) -> GatePolicy:
        """The same on a cluster with this many nodes: if everything takes minutes, a check a second only loads the API.

        Never so slow that the deadline leaves less than eight times the checks that have to succeed. On a cluster of up
        to 300 nodes every gate is checked each time.
        """
        scaled = min(nodes / _NODES_A_SECOND, _SLOWEST_SECONDS, self.deadline_seconds / (8 * self.consecutive))
        rest = _ROUNDS_OF_REST * scaled if nodes > _NODES_A_SECOND else 0.0
        return replace(self, interval_seconds=max(self.interval_seconds, scaled), recheck_seconds=rest)


WorkloadGateKind = Literal["daemonset", "deployment", "statefulset", "rolloutGroup", "protector"]
"""The object of a gate, as `upgrader.yaml` names it."""

OF_GUARD: frozenset[WorkloadGateKind] = frozenset({"statefulset", "rolloutGroup", "protector"})
"""Gates on workloads that clients other than Helm change: a rollback waits for them, too."""


@dataclass(frozen=True)
class WorkloadGate:
    """A gate that the file adds to a step: a workload, a group of workloads or a protector that must be healthy."""

    kind: WorkloadGateKind
    namespace: str
    name: str
    policy: GatePolicy


@dataclass(frozen=True)
class MetricGateSettings:
    """A gate that the file adds to a step: the result of a Prometheus query must stay within limits for a time."""

    name: str
    query: str
    """PromQL that returns one series."""
    policy: GatePolicy
    minimum: float | None = None
    maximum: float | None = None
    """At least one of the two; a value equal to a limit passes."""
    window_seconds: float = 60.0
    """How long it must stay within them, entirely after the step's change."""


StepGate = WorkloadGate | MetricGateSettings


@dataclass(frozen=True)
class ReleaseSettings:
    """A Helm release as a step; `chart` None means the built-in chart of the release's name."""

    name: str
    namespace: str
    chart: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The content of `values_file`; empty when the file doesn't exist: the chart's defaults apply."""
    values_file: Path | None = None
    gates: tuple[StepGate, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    """How much it may disturb the API's clients."""
    approval_seconds: float | None = None
    """How long to wait for a person's approval before it changes anything; None: it needs none."""


@dataclass(frozen=True)
class PlaybookSettings:
    """An Ansible playbook as a step; its name is the file's without the suffix."""

    name: str
    playbook: Path
    undo: Path | None = None
    """The playbook that undoes it."""
    gates: tuple[StepGate, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    """How much it may disturb the API's clients."""
    approval_seconds: float | None = None
    """How long to wait for a person's approval before it begins; None: it needs none."""


StepSettings = ReleaseSettings | PlaybookSettings


@dataclass(frozen=True)
class AvailabilitySettings:
    """How the API is probed during a run; a rate of 0 turns it off."""

    requests_per_second: float = 10.0
    addresses: tuple[str, ...] = ()
    """Addresses besides the kubeconfig's, as `https://HOST:PORT`."""
    limits: Limits = DEFAULT_LIMITS
    """How much a step may disturb the API's clients."""


@dataclass(frozen=True)
class RecoverySettings:
    """Whether, and after how long, a run restores an unreachable API over SSH."""

    enabled: bool = True
    after_seconds: float = 60.0

    @property
    def patience_seconds(self) -> float:
        """How long a run only waits for an unreachable API; without recovery, it waits permanently."""
        return self.after_seconds if self.enabled else inf


RehearsalMode = Literal["ignore", "warn", "require"]


@dataclass(frozen=True)
class RehearsalSettings:
    """Whether a run needs the record of a rehearsal, and how old that may be."""

    mode: RehearsalMode = "ignore"
    max_age_seconds: float = 7 * 86400.0


@dataclass(frozen=True)
class ImageSettings:
    """Whether a run has the nodes pull its images before it changes anything, and how."""

    pull: bool = True
    deadline_seconds: float = 600.0
    """For the images of one node."""
    parallel: IntOrPercent | None = None
    """How many nodes pull, or have images imported, at the same time; None: a tenth of them, and at least 10."""
    bundle: Path | None = None
    """The file from which images are imported before any node pulls."""

    def at_once(self, nodes: int) -> int:
        """How many of this many nodes get images at the same time.

        A tenth is how many nodes kube-proxy is replaced on at once: without this step, as many would pull then.
        """
        return self.parallel.at_once(nodes) if self.parallel is not None else max(_FEW, _TENTH.at_once(nodes))

    def imported_at_once(self, nodes: int) -> int:
        """The same if all images come from this machine, over one connection to each node."""
        return min(self.parallel.at_once(nodes), _CONNECTIONS) if self.parallel is not None else _FEW


@dataclass(frozen=True)
class BackupSettings:
    """Who can read backups, where they are, and how long they are kept."""

    recipients: tuple[str, ...] = ()
    """age public keys; without one, no backup is taken."""
    folder: Path = Path("backups")
    keep: int = 5
    max_age_seconds: float | None = None
    """The newest one is always kept."""


@dataclass(frozen=True)
class Settings:
    """Everything that a command needs to know before it reads the cluster. All paths are absolute."""

    folder: Path
    target: KubernetesVersion
    """The version to upgrade to (`kubernetesVersion` in the file, or `--to`)."""
    kubeconfig: Path
    inventory: Path
    pipeline: tuple[StepSettings, ...]
    context: str = ""
    """The kubeconfig context that must be the current one; "" accepts any."""
    context_chosen: bool = False
    """Whether the operator chose that context: then it is used even if it isn't the current one."""
    kubeconfig_named: bool = True
    """Whether the operator named the kubeconfig; otherwise it is the folder's own, if there is one."""
    through: tuple[KubernetesVersion, ...] = ()
    """The version of each minor that an upgrade over several minors goes through; for others, the newest patch."""
    dynamic_inventory: bool = False
    """Whether the inventory may run code."""
    helm_timeout_seconds: float = 300.0
    on_failure: OnFailure = "rollback-run"
    emulation: bool = False
    """Whether a run to the next minor first has the new components emulate the old one."""
    degraded: Degraded = "refuse"
    """Whether a run may leave out a controller that is down."""
    bake_seconds: float = 0.0
    """How long all gates must pass at the end of a run that changed something; 0: not at all."""
    keep_runs: int = 20
    """How many past runs are kept when a new one starts."""
    recovery: RecoverySettings = RecoverySettings()
    rehearsal: RehearsalSettings = RehearsalSettings()
    gates: GatePolicy = GatePolicy()
    metric_gates: tuple[MetricGateSettings, ...] = ()
    """The gates of every step that changes a release, runs a playbook or upgrades nodes."""
    unhealthy_workers: IntOrPercent = DEFAULT_UNHEALTHY_WORKERS
    """How many of the workers that were healthy before a run may become unhealthy during it."""
    availability: AvailabilitySettings = AvailabilitySettings()
    images: ImageSettings = ImageSettings()
    backup: BackupSettings = BackupSettings()
    nodes: NodesSettings | None = None
    """How nodes are upgraded; None: they are not."""
    etcd: EtcdSettings | None = None
    """The image that etcd's members get; None: they keep theirs."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Severities of findings, by their ids, that replace the checks' own."""
    observability: ObservabilitySettings = field(default_factory=ObservabilitySettings)
    copy: Path | None = field(default=None, repr=False)
    """Where the files are that were copied from `folder`, to be read instead; None: they are read there. What a run
    writes (`runs`, backups), and credentials, are in `folder` all the same.
    """

    @property
    def inputs(self) -> Path:
        """The folder whose files are read."""
        return self.copy or self.folder

    @property
    def shortest_interval_seconds(self) -> float:
        """The time between two checks of the gate that is checked most often."""
        own = (gate.policy.interval_seconds for gate in self.workload_gates)
        return min((self.gates.interval_seconds, *own))

    @property
    def workload_gates(self) -> tuple[WorkloadGate, ...]:
        """Those of single steps."""
        return tuple(gate for item in self.pipeline for gate in item.gates if isinstance(gate, WorkloadGate))

    @property
    def approvals(self) -> Mapping[str, float]:
        """For how many seconds a step waits for a person's approval, by its name; for a pool, by that of its first
        step.
        """
        steps = [(item.name, item.approval_seconds) for item in self.pipeline]
        pools = [(pool.steps[0], pool.approval_seconds) for pool in (self.nodes.pools if self.nodes else ())]
        return {name: seconds for name, seconds in (*steps, *pools) if seconds is not None}

    @property
    def values_files(self) -> Mapping[str, Path]:
        """The path of the operator's values of each release, by its name; the file may not exist."""
        releases = (item for item in self.pipeline if isinstance(item, ReleaseSettings))
        return {item.name: item.values_file for item in releases if item.values_file is not None}

    @property
    def all_metric_gates(self) -> tuple[MetricGateSettings, ...]:
        """The gates of single steps, and of every step."""
        gates = (gate for item in self.pipeline for gate in item.gates)
        return (*(gate for gate in gates if isinstance(gate, MetricGateSettings)), *self.metric_gates)

    def limits(self, step: str, controllers: int) -> Limits:
        """The limits of a step, even one that isn't in the pipeline, on a cluster with this many controllers."""
        if step == ETCD and self.etcd is not None:
            return self.etcd.limits(controllers, self.availability.limits)
        return next((item.limits for item in self.pipeline if item.name == step), self.availability.limits)
