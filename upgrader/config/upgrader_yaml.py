"""The schema of `upgrader.yaml`. Its descriptions are the text of the reference manual."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from upgrader.config.age_recipient import check_recipient
from upgrader.config.etcd_yaml import EtcdSection
from upgrader.config.nodes_yaml import NodesSection
from upgrader.config.observability_yaml import ObservabilitySection
from upgrader.config.pipeline_gates_yaml import AnyGate, MetricGateSection
from upgrader.config.section import ApprovalSection, Duration, NodeShare, StepAvailabilitySection, Text, Version
from upgrader.config.section import Section as _Model
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.health_before import NONE, IntOrPercent
from upgrader.model.image_settings import ImageSettings
from upgrader.model.settings import (
    DEFAULT_LIMITS,
    DEFAULT_UNHEALTHY_WORKERS,
    AvailabilitySettings,
    BackupSettings,
    Degraded,
    OnFailure,
    RecoverySettings,
    RehearsalMode,
    RehearsalSettings,
    Settings,
)
from upgrader.model.version import KubernetesVersion

__all__ = [
    "PLAYBOOK_TAG",
    "RELEASE_TAG",
    "AvailabilitySection",
    "BackupSection",
    "ChecksSection",
    "ClusterSection",
    "UpgraderYaml",
    "GatesSection",
    "HelmSection",
    "ImagesSection",
    "PlaybookSection",
    "PolicySection",
    "RecoverySection",
    "RehearsalSection",
    "ReleaseSection",
]

RELEASE_TAG, PLAYBOOK_TAG = "(release)", "(playbook)"
"""Names that pydantic puts into error locations; in brackets, so that they can't be confused with keys."""


_RELEASE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RELEASE_CHARACTERS = 53


def _release(text: object) -> str:
    """Helm's own rule. Anything else might be an option for it: `--post-renderer=…` would run a program."""
    if not isinstance(text, str) or not _RELEASE.fullmatch(text) or len(text) > _RELEASE_CHARACTERS:
        raise ValueError(
            f"{text!r} is not a release's name: lower-case letters, digits, '-' and '.', at most "
            f"{_RELEASE_CHARACTERS} of them, with a letter or a digit at both ends"
        )
    return text


ReleaseName = Annotated[str, BeforeValidator(_release)]
Recipient = Annotated[str, BeforeValidator(check_recipient)]


class ClusterSection(_Model):
    """Which cluster this is. Paths are relative to the folder of `upgrader.yaml`."""

    kubeconfig: Text = Field(default="kubeconfig", description="The kubeconfig of the cluster.")
    context: str = Field(
        default="",
        description="The name that the kubeconfig's current context must have; `run` refuses any other. Empty: any.",
    )
    inventory: Text = Field(default="hosts.yml", description="The Ansible inventory, with the group `controllers`.")
    dynamic_inventory: bool = Field(
        default=Settings.dynamic_inventory,
        description="Whether the inventory may be a program or a plugin's configuration, and whether its variables "
        "may use lookups. Each of these runs code from the folder on this machine, and can start any "
        "command.",
    )


class HelmSection(_Model):
    """How Helm is used."""

    timeout: Duration = Field(
        default=Settings.helm_timeout_seconds,
        description="How long one release may take to become ready.",
        examples=["5m"],
    )


class RecoverySection(_Model):
    """What a run does when a step makes the API unreachable, and it doesn't recover by itself."""

    enabled: bool = Field(
        default=RecoverySettings.enabled,
        description="Whether the run restores the API over SSH, from the last-known-good checkpoints on the "
        "controllers, and then rolls back. Otherwise it waits for five minutes, and then requires manual action.",
    )
    after: Duration = Field(
        default=RecoverySettings.after_seconds,
        description="How long the API may be unreachable before the run restores it. The pod-checkpointer ends most "
        "outages in half a minute, and a controller reboots in about that time.",
        examples=["60s"],
    )


class RehearsalSection(_Model):
    """Whether a run that changes releases needs a [rehearsal](../rehearsal.md#require-it) of exactly that change."""

    mode: RehearsalMode = Field(
        default=RehearsalSettings.mode,
        description="`require`: a run is blocked if there is no rehearsal, or if it has findings that `--skip` doesn't "
        "accept. `warn`: these are warnings. `ignore`: rehearsals are not checked.",
    )
    max_age: Duration = Field(
        default=RehearsalSettings.max_age_seconds,
        description="How old the rehearsal may be.",
        examples=["168h"],
    )


class PolicySection(_Model):
    """What to do when something fails."""

    on_failure: OnFailure = Field(
        default=Settings.on_failure,
        description="`rollback-run` undoes every step of the run, the last one first; `rollback-step` only the one "
        "that failed; `stop` leaves everything as it is.",
    )
    emulation: bool = Field(
        default=Settings.emulation,
        description="Whether a run to the next minor can be undone later: the new kube-apiserver, "
        "kube-controller-manager and kube-scheduler emulate the old minor until `upgrader finalize`.",
    )
    degraded: Degraded = Field(
        default=Settings.degraded,
        description="What `upgrader run` does if one of at least three controllers is down. `refuse`: it doesn't "
        "start. `allow`: it [leaves that controller out](../kubeadm.md#a-controller-that-is-down) and upgrades the "
        "others, within one minor version; once the controller is back, `upgrader resume` also upgrades it.",
    )
    bake: Duration | None = Field(
        default=None,
        description="How long all gates are checked at the end of `upgrader finalize`, and of a run that changed "
        "something. A gate that doesn't pass for longer than its deadline fails the run. Empty: no such check.",
        examples=["10m"],
    )
    recovery: RecoverySection = RecoverySection()
    rehearsal: RehearsalSection = RehearsalSection()
    keep_runs: int = Field(
        default=Settings.keep_runs,
        ge=1,
        description="How many past runs are kept in `runs/` when a new one starts. The last upgrade, and the last one "
        "that succeeded, are always kept.",
    )


class GatesSection(_Model):
    """When a gate passes or fails, unless the gate has its own values."""

    consecutive: int = Field(
        default=GatePolicy.consecutive, ge=1, description="How many consecutive checks must succeed."
    )
    interval: Duration = Field(
        default=GatePolicy.interval_seconds,
        description="The time between two checks. At least a second for every 300 nodes of the cluster, up to 5 s.",
        examples=["1s"],
    )
    deadline: Duration = Field(
        default=GatePolicy.deadline_seconds,
        description="The time after which a gate that has not passed fails "
        "([all deadlines](../concepts.md#how-long-a-gate-may-wait)).",
        examples=["2m"],
    )

    unhealthy_workers: NodeShare = Field(
        default=DEFAULT_UNHEALTHY_WORKERS,
        description="How many of the workers that were healthy before a run may be unhealthy during it: a number, or a "
        "percentage, which is rounded up; never all of them. Controllers must always be healthy.",
    )
    metrics: list[MetricGateSection] = Field(
        default=[],
        description="Metric gates after every step that changes a release, runs a playbook or upgrades nodes.",
    )


class AvailabilitySection(_Model):
    """The prober that counts failed API requests during a run."""

    requests_per_second: float = Field(
        default=AvailabilitySettings.requests_per_second,
        ge=0,
        le=1000,
        description="Requests a second; 0 turns the prober, and its gate, off.",
    )
    addresses: list[Text] = Field(
        default=[],
        description="Further addresses of the API to probe, as https://HOST:PORT, such as a load balancer's.",
    )
    max_failed: int = Field(
        default=DEFAULT_LIMITS.max_failed,
        ge=0,
        description="How many requests may fail during a step before it is rolled back.",
    )
    max_gap: Duration = Field(
        default=DEFAULT_LIMITS.max_gap_seconds,
        description="For how long requests may go unanswered during a step before it is rolled back.",
        examples=["10s"],
    )


class BackupSection(_Model):
    """Encrypted [backups](../backup.md), taken before a minor upgrade and by `upgrader backup`."""

    recipients: list[Recipient] = Field(
        default=[],
        description="The recipients, who can decrypt the backups: age public keys (`age1…`), as `upgrader backup "
        "keygen` prints them. Empty: no backup is taken before a minor upgrade.",
    )
    folder: Text = Field(
        default=str(BackupSettings.folder), description="The folder of the backups, relative to this file."
    )
    keep: int = Field(default=BackupSettings.keep, ge=1, description="How many backups are kept.")
    max_age: Duration | None = Field(
        default=None,
        description="How old a backup may become: older ones are removed after a new one is taken. The newest is "
        "always kept.",
        examples=["720h"],
    )


class ChecksSection(_Model):
    """The severity of what checks find."""

    severities: dict[str, Literal["error", "warning", "info"]] = Field(
        default={},
        description="The severity of findings by their ids, such as `webhooks.slow: error`, instead of the severity "
        "that the check sets. [Checks](checks.md) lists the ids. The severity of every finding can be raised; it can "
        "only be lowered if `--skip` accepts the id.",
    )


class ImagesSection(_Model):
    """The images of what a run installs or changes: they are on the nodes before the step that needs them."""

    pull: bool = Field(
        default=ImageSettings.pull,
        description="Whether nodes pull missing images first, in the step `images`. If that fails, the run ends with "
        "nothing changed. If there are many workers, only some of them pull in that step; the others pull while "
        "kube-apiserver is replaced. If that fails, the next step doesn't start, and the run is rolled back.",
    )
    deadline: Duration = Field(
        default=ImageSettings.deadline_seconds,
        description="How long the images of one node may take.",
        examples=["10m"],
    )
    parallel: NodeShare | None = Field(
        default=None,
        description="How many nodes pull, or import, at the same time: a number, or a percentage of the nodes that "
        "lack an image, which is rounded down. Empty: for pulls a tenth of these nodes, but at least 10; for imports "
        "10. At most 100 nodes import at the same time.",
    )
    bundle: str = Field(
        default="",
        description="A bundle from `upgrader bundle create`, relative to the folder of `upgrader.yaml`. The first "
        "step imports its images into the nodes of the inventory, over SSH. Empty: none. `upgrader run --bundle` "
        "overrides it.",
    )

    @field_validator("parallel")
    @classmethod
    def _at_least_one(cls, value: IntOrPercent | None) -> IntOrPercent | None:
        if value == NONE:
            raise ValueError("no node would pull images; write a number of at least 1, or a percentage such as 10%")
        return value


class ReleaseSection(_Model):
    """A Helm release."""

    release: ReleaseName = Field(description="The release's name.")
    namespace: str = Field(
        default="", description="The release's namespace. Empty: `kube-system` for a built-in chart, else `default`."
    )
    chart: str = Field(
        default="", description="A chart's folder or package. Empty: the built-in chart of the release's name."
    )
    values: str = Field(
        default="", description="The release's values file. Empty: `values/RELEASE.yaml`, if there is one."
    )
    gates: list[AnyGate] = Field(default=[], description="Further gates; the built-in ones of the chart always apply.")
    availability: StepAvailabilitySection = StepAvailabilitySection()
    approval: ApprovalSection | None = None


class PlaybookSection(_Model):
    """An Ansible playbook."""

    playbook: Text = Field(description="The playbook's file.")
    undo: str = Field(
        default="",
        description="The playbook that undoes this playbook's changes, from any state that an interruption may leave. "
        "Empty: there is none, and a rollback stops at this step.",
    )
    gates: list[AnyGate] = Field(default=[], description="Gates after the playbook.")
    availability: StepAvailabilitySection = StepAvailabilitySection()
    approval: ApprovalSection | None = None


def _kind_of_step(data: Any) -> str:
    keys = [str(key) for key in data] if isinstance(data, dict) else []
    misspelt = any(get_close_matches(key, ["playbook"]) for key in keys)
    return PLAYBOOK_TAG if misspelt and "release" not in keys else RELEASE_TAG


Step = Annotated[
    Annotated[ReleaseSection, Tag(RELEASE_TAG)] | Annotated[PlaybookSection, Tag(PLAYBOOK_TAG)],
    Discriminator(_kind_of_step),
]

_PIPELINE = (
    "The steps in their order, each a release or a playbook. Empty: the releases of the three built-in charts, "
    "`pod-checkpointer`, `kube-apiserver`, `kubernetes`."
)


class UpgraderYaml(_Model):
    """`upgrader.yaml`: the desired state of a cluster, and how to reach it."""

    kubernetes_version: Version = Field(
        description="The Kubernetes version that the cluster should run; `upgrader run --to` overrides it.",
        examples=["v1.36.3"],
    )
    through: list[Version] = Field(
        default=[],
        description="The versions that an upgrade over several minors goes through, at most one of each minor. For "
        "other minors, the newest patch that upgrader knows is used. Written as `[v1.34.4, v1.35.4]`.",
    )
    cluster: ClusterSection = ClusterSection()
    helm: HelmSection = HelmSection()
    policy: PolicySection = PolicySection()
    gates: GatesSection = GatesSection()
    availability: AvailabilitySection = AvailabilitySection()
    backup: BackupSection = BackupSection()
    checks: ChecksSection = ChecksSection()
    images: ImagesSection = ImagesSection()
    observability: ObservabilitySection = ObservabilitySection()
    pipeline: list[Step] | None = Field(
        default=None,
        min_length=1,
        description=_PIPELINE,
    )
    etcd: EtcdSection | None = Field(
        default=None, description="Which image etcd's members get. Without this section, a run leaves etcd as it is."
    )
    nodes: NodesSection | None = Field(
        default=None, description="How nodes are upgraded. Without this section, a run leaves them as they are."
    )

    @field_validator("through")
    @classmethod
    def _one_of_each_minor(cls, versions: list[KubernetesVersion]) -> list[KubernetesVersion]:
        minors = [(version.major, version.minor) for version in versions]
        for version, minor in zip(versions, minors, strict=True):
            if minors.count(minor) > 1:
                raise ValueError(
                    f"v{version.major}.{version.minor} is listed more than once; list one patch release of each minor "
                    "version"
                )
        return versions
