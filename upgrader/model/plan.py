"""A plan: what a run would change, before it changes anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from upgrader.model.api_lifecycle import Minor
from upgrader.model.etcd_plan import PlannedEtcd
from upgrader.model.images import image_changes, other_versions
from upgrader.model.masked_manifest import masked_text
from upgrader.model.node_configuration import NO_CONFIGURATION, NodeConfiguration
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.own_steps import KUBEADM_CONFIG, KUBELET_CONFIG
from upgrader.model.planned_surge import PlannedSurge
from upgrader.model.redaction.patterns import mask_patterns
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion

__all__ = [
    "Action",
    "NodeChange",
    "ObjectChange",
    "OwnStep",
    "Plan",
    "PlannedKubeadmConfig",
    "PlannedKubeletConfig",
    "PlannedNodes",
    "PlannedPlaybook",
    "PlannedRelease",
    "PlannedStep",
    "PlannedSurge",
    "new_minor_of_etcd",
]

Action = Literal["install", "upgrade", "unchanged"]


@dataclass(frozen=True)
class ObjectChange:
    """One object that a release would add, change or remove; `diff` is a unified diff of its YAML, Secrets masked."""

    object: str
    """`Deployment kube-system/kube-apiserver`"""
    change: Literal["added", "changed", "removed"]
    diff: str


@dataclass(frozen=True)
class PlannedRelease:
    """One Helm release: its last good manifest (`before`; "" when not installed) and the planned one (`after`)."""

    spec: ReleaseSpec
    action: Action
    summary: str
    before: str
    after: str
    changes: tuple[ObjectChange, ...]
    pending: bool = False
    """Whether an interrupted Helm operation left it pending: it must be freed before anything else."""
    revision: int | None = None
    """The last good revision, to which a rollback returns; None: there is none."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True)
class PlannedPlaybook:
    """One playbook; what it changes is known only when Ansible runs it."""

    playbook: Path
    undo: Path | None = None
    """The playbook that undoes it."""
    action: Literal["playbook"] = "playbook"
    changes: tuple[ObjectChange, ...] = ()

    @property
    def name(self) -> str:
        return self.playbook.stem

    @property
    def summary(self) -> str:
        return str(self.playbook)


@dataclass(frozen=True)
class NodeChange:
    """One node, and its kubelet's version before and after."""

    node: str
    before: KubernetesVersion
    after: KubernetesVersion
    again: bool = False
    """Whether it failed in an earlier run that could not put it back: whatever kept it, this run upgrades it."""
    configured: str = ""
    """The fingerprint of what it was configured with before."""

    def __str__(self) -> str:
        return f"{self.node} {self.before} → {self.after}"


@dataclass(frozen=True)
class PlannedNodes:
    """The nodes of one pool that change."""

    pool: NodePool
    nodes: tuple[NodeChange, ...]
    target: KubernetesVersion
    source: NodeSource
    ready_seconds: float
    at_once: int
    """How many are upgraded at once."""
    playbooks: Path
    """The folder of the playbooks that change them."""
    changes: tuple[ObjectChange, ...] = ()
    configuration: NodeConfiguration = NO_CONFIGURATION
    """What the nodes get beside their programs."""

    @property
    def name(self) -> str:
        return self.pool.step

    @property
    def action(self) -> Action:
        return "upgrade" if self.nodes else "unchanged"

    @property
    def summary(self) -> str:
        if not self.nodes:
            return "nothing to change"
        before = sorted({node.before for node in self.nodes} - {self.target})
        parts = [f"{', '.join(map(str, before))} → {self.target}"] if before else []
        parts += [str(self.configuration)] if self.configuration.fingerprint else []
        count = len(self.nodes)
        text = f"{count} node{'s' if count > 1 else ''}: {'; '.join(parts) or self.target}"
        return f"{text}; out of the load balancer meanwhile" if self.pool.detach else text


@dataclass(frozen=True)
class PlannedKubeadmConfig:
    """The version in ConfigMap `kubeadm-config`, before and after: kubeadm goes by it."""

    before: KubernetesVersion
    after: KubernetesVersion
    name: str = KUBEADM_CONFIG

    @property
    def action(self) -> Action:
        return "unchanged" if self.before == self.after else "upgrade"

    @property
    def summary(self) -> str:
        return "nothing to change" if self.before == self.after else f"kubernetesVersion: {self.before} → {self.after}"

    @property
    def changes(self) -> tuple[ObjectChange, ...]:
        """The one line that changes. The rest of the text isn't shown: others wrote it, and may have kept secrets."""
        if self.before == self.after:
            return ()
        diff = f"--- now\n+++ planned\n-kubernetesVersion: {self.before}\n+kubernetesVersion: {self.after}"
        return (ObjectChange("ConfigMap kube-system/kubeadm-config", "changed", diff),)


@dataclass(frozen=True)
class PlannedKubeletConfig:
    """Fields of ConfigMap `kubelet-config`, and those of them that it lacks: nodes that join get what is there."""

    fields: Mapping[str, Any]
    lacking: tuple[str, ...]
    """As `authentication.anonymous.enabled`."""
    name: str = KUBELET_CONFIG

    @property
    def action(self) -> Action:
        return "upgrade" if self.lacking else "unchanged"

    @property
    def summary(self) -> str:
        return f"set {', '.join(self.lacking)}" if self.lacking else "nothing to change"

    @property
    def changes(self) -> tuple[ObjectChange, ...]:
        """The fields that change. The rest of the text isn't shown: others wrote it, and may have kept secrets."""
        if not self.lacking:
            return ()
        wanted = (f"+{name}: {json.dumps(_at(self.fields, name))}" for name in self.lacking)
        diff = mask_patterns("\n".join(["--- now", "+++ planned", *wanted]))
        return (ObjectChange("ConfigMap kube-system/kubelet-config", "changed", diff),)


def _at(fields: Mapping[str, Any], path: str) -> Any:
    """A field by its path; its own name may have dots."""
    first = next((name for name in fields if path == name or path.startswith(f"{name}.")), "")
    return fields[first] if path == first else _at(fields[first], path[len(first) + 1 :])


PlannedStep = (
    PlannedRelease
    | PlannedPlaybook
    | PlannedNodes
    | PlannedSurge
    | PlannedEtcd
    | PlannedKubeadmConfig
    | PlannedKubeletConfig
)


@dataclass(frozen=True)
class OwnStep:
    """A step that a run has beside those of upgrader.yaml: it prepares them, frees a release for them, or bakes."""

    name: str
    kind: Literal["preparation", "free", "bake"]
    summary: str


@dataclass(frozen=True)
class Plan:
    """Everything that `run` will do, in order."""

    current: KubernetesVersion
    target: KubernetesVersion
    steps: tuple[PlannedStep, ...]
    """Those of upgrader.yaml."""
    emulated: Minor | None = None
    """The older minor that the components emulate afterwards; None: their own."""
    before: tuple[OwnStep, ...] = ()
    """The run's own steps that come before `steps`."""
    after: tuple[OwnStep, ...] = ()
    """Those that come after `steps`."""

    @property
    def every_step(self) -> tuple[PlannedStep | OwnStep, ...]:
        """Each step of the run, in its order."""
        return (*self.before, *self.steps, *self.after)

    @property
    def mixed(self) -> tuple[str, ...]:
        """The components that now have another version than kube-apiserver: an upgrade was left in its middle."""
        releases = [step for step in self.steps if isinstance(step, PlannedRelease)]
        changes = (change for step in releases for change in image_changes(step.before, step.after))
        return other_versions(changes, self.current)

    @property
    def digest(self) -> str:
        """A fingerprint of the current and the planned state: equal digests mean the same run from the same start.

        But for the values of secrets: whoever reads the digest could try guesses.
        """
        parts = [str(self.current), str(self.target)]
        for step in self.every_step:
            parts.append(step.name)
            if isinstance(step, PlannedNodes):
                parts += [*map(str, step.nodes), step.configuration.fingerprint]
            elif isinstance(step, PlannedSurge | PlannedKubeadmConfig | PlannedKubeletConfig):
                parts.append(step.summary)
            elif isinstance(step, PlannedEtcd):
                parts += [step.settings.image, *map(str, step.members)]
            elif isinstance(step, PlannedRelease):
                parts += [masked_text(step.before), masked_text(step.after)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def new_minor_of_etcd(plan: Plan) -> bool:
    """Whether etcd's members get another minor, whose data the older one can't read."""
    return any(isinstance(step, PlannedEtcd) and step.members and step.new_minor for step in plan.steps)
