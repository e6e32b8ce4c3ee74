"""The operator's settings: `upgrader.yaml`, the environment and the flags, merged and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal

from upgrader.model.availability import Limits
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.finding import Severity
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings, StepGate, WorkloadGate
from upgrader.model.health_before import IntOrPercent
from upgrader.model.image_settings import ImageSettings
from upgrader.model.node_settings import NodesSettings
from upgrader.model.observability import ObservabilitySettings
from upgrader.model.own_steps import ETCD
from upgrader.model.version import KubernetesVersion

__all__ = [
    "BUILT_IN_CHARTS",
    "DEFAULT_LIMITS",
    "DEFAULT_UNHEALTHY_WORKERS",
    "AvailabilitySettings",
    "BackupSettings",
    "Degraded",
    "OnFailure",
    "PlaybookSettings",
    "RecoverySettings",
    "RehearsalMode",
    "RehearsalSettings",
    "ReleaseSettings",
    "Settings",
    "StepSettings",
]

BUILT_IN_CHARTS = ("pod-checkpointer", "kube-apiserver", "kubernetes")
"""The charts that come with upgrader, in the order in which the default pipeline upgrades them."""

DEFAULT_LIMITS = Limits(max_failed=100, max_gap_seconds=10.0)
"""Ten seconds of failed requests (at 10 requests a second) or without an answer: an outage, rather than a slow disk."""

DEFAULT_UNHEALTHY_WORKERS = IntOrPercent(percent=10)
"""A node in ten reboots, or is replaced, while a large cluster is upgraded."""

OnFailure = Literal["rollback-run", "rollback-step", "stop"]
"""What happens after a failed step: undo the whole run, undo that step only, or leave everything as it is."""

Degraded = Literal["refuse", "allow"]
"""Whether a run may leave out a controller that is down."""


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
    gates: GatePolicy = field(default_factory=GatePolicy)
    metric_gates: tuple[MetricGateSettings, ...] = ()
    """The gates of every step that changes a release, runs a playbook or upgrades nodes."""
    unhealthy_workers: IntOrPercent = DEFAULT_UNHEALTHY_WORKERS
    """How many of the workers that were healthy before a run may become unhealthy during it."""
    availability: AvailabilitySettings = AvailabilitySettings()
    images: ImageSettings = field(default_factory=ImageSettings)
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
