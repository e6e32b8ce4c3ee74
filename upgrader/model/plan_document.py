"""A plan as it is shown, to people and to programs; `docs/reference/plan.schema.json` describes its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Self

from upgrader.model.emulation import minor_of, minor_text
from upgrader.model.etcd_plan import PlannedEtcd
from upgrader.model.finding import Finding
from upgrader.model.images import ImageChange, image_changes, other_versions
from upgrader.model.plan import (
    Action,
    NodeChange,
    ObjectChange,
    OwnStep,
    Plan,
    PlannedKubeadmConfig,
    PlannedKubeletConfig,
    PlannedNodes,
    PlannedPlaybook,
    PlannedStep,
    PlannedSurge,
)
from upgrader.model.version import KubernetesVersion

__all__ = [
    "FORMAT_VERSION",
    "Emulation",
    "HopDocument",
    "HostChange",
    "HostChanges",
    "PlanDocument",
    "StepDocument",
    "Undo",
]

FORMAT_VERSION: Literal["1.6"] = "1.6"
"""Of the JSON: the second number goes up when fields are added, the first when a reader would misunderstand them."""


@dataclass(frozen=True)
class Undo:
    """What rolls a step back. `none`: nothing does, so the run can't get back to before it."""

    how: Literal[
        "rollback",
        "uninstall",
        "playbook",
        "nodes",
        "surge",
        "etcd",
        "kubeadm-config",
        "kubelet-config",
        "none",
        "not-needed",
    ]
    revision: int | None = None
    """The release's revision that a `rollback` returns to."""
    playbook: str | None = None

    @classmethod
    def of(cls, step: PlannedStep | OwnStep) -> Undo:
        """How a step is rolled back."""
        if isinstance(step, OwnStep):
            return cls("not-needed")
        if isinstance(step, PlannedPlaybook):
            return cls("playbook", playbook=step.undo.name) if step.undo else cls("none")
        if step.action == "unchanged":
            return cls("not-needed")
        if isinstance(step, PlannedNodes):
            return cls("nodes")
        if isinstance(step, PlannedSurge):
            # What was removed isn't brought back: the nodes go back without a surge.
            return cls("not-needed" if step.end else "surge")
        if isinstance(step, PlannedKubeadmConfig):
            return cls("kubeadm-config")
        if isinstance(step, PlannedKubeletConfig):
            return cls("kubelet-config")
        if isinstance(step, PlannedEtcd):
            return cls("none" if step.new_minor else "etcd")
        return cls("rollback", step.revision) if step.revision is not None else cls("uninstall")

    def __str__(self) -> str:
        match self.how:
            case "rollback":
                return f"rollback to revision {self.revision}"
            case "playbook":
                return f"playbook {self.playbook}"
            case "nodes":
                return "each node gets back what it had"
            case "surge":
                return "the surge nodes are drained and removed"
            case "etcd":
                return "each member gets back the image that it had"
            case "kubeadm-config":
                return "the version before is written back"
            case "kubelet-config":
                return "the text before is written back"
            case _:
                return self.how.replace("-", " ")


@dataclass(frozen=True)
class HostChange:
    """The tasks of a playbook that would change a host, by their names, in their order."""

    host: str
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class HostChanges:
    """What a playbook would change, as Ansible's check mode tells: what depends on an earlier task, and commands, it
    can't know. `unknown`: why it could not be asked, "" where it was.
    """

    hosts: tuple[HostChange, ...] = ()
    unknown: str = ""

    def __str__(self) -> str:
        if self.unknown:
            return f"unknown: {self.unknown}"
        if not self.hosts:
            return "nothing, as far as Ansible's check mode knows"
        return "; ".join(f"{item.host}: {', '.join(item.tasks)}" for item in self.hosts)


@dataclass(frozen=True)
class StepDocument:
    """One step of a run. `usual_seconds` is its median in earlier runs of this folder; null where there are none.

    A `preparation` changes nothing that runs (a backup, the images on their nodes); `free` rolls a release back that an
    interrupted Helm left pending; a `bake` holds all gates for a while; `kubeadm-config` tells kubeadm which version
    runs, and `kubelet-config` what nodes that join later get. A `surge` adds nodes to a pool before it is upgraded, or
    removes them afterwards. `etcd` changes the image of etcd's members.

    `hosts` is what a playbook would change, `nodes` which nodes of a pool are upgraded; null for other kinds.
    """

    name: str
    kind: Literal[
        "release",
        "playbook",
        "nodes",
        "surge",
        "etcd",
        "kubeadm-config",
        "kubelet-config",
        "preparation",
        "free",
        "bake",
    ]
    action: Action | Literal["playbook", "add", "remove", "prepare", "free", "bake"]
    summary: str
    undo: Undo
    usual_seconds: float | None
    images: tuple[ImageChange, ...]
    changes: tuple[ObjectChange, ...]
    hosts: HostChanges | None = None
    nodes: tuple[NodeChange, ...] | None = None

    @classmethod
    def of(
        cls, step: PlannedStep | OwnStep, usual_seconds: float | None, hosts: HostChanges | None = None
    ) -> StepDocument:
        """How a step is shown. A playbook is named without its folder; an unchanged step takes no time."""
        undo = Undo.of(step)
        if isinstance(step, OwnStep):
            action = step.kind if step.kind != "preparation" else "prepare"
            return cls(step.name, step.kind, action, step.summary, undo, usual_seconds, (), ())
        if isinstance(step, PlannedPlaybook):
            return cls(step.name, "playbook", step.action, step.playbook.name, undo, usual_seconds, (), (), hosts)
        seconds = usual_seconds if step.action != "unchanged" else None
        if isinstance(step, PlannedNodes):
            return cls(step.name, "nodes", step.action, step.summary, undo, seconds, (), (), nodes=step.nodes)
        if isinstance(step, PlannedSurge):
            return cls(step.name, "surge", step.action, step.summary, undo, seconds, (), ())
        if isinstance(step, PlannedKubeadmConfig):
            return cls(step.name, "kubeadm-config", step.action, step.summary, undo, seconds, (), step.changes)
        if isinstance(step, PlannedKubeletConfig):
            return cls(step.name, "kubelet-config", step.action, step.summary, undo, seconds, (), step.changes)
        if isinstance(step, PlannedEtcd):
            return cls(step.name, "etcd", step.action, step.summary, undo, seconds, _etcd_images(step), ())
        images = image_changes(step.before, step.after)
        return cls(step.name, "release", step.action, step.summary, undo, seconds, images, step.changes)

    @property
    def to_do(self) -> bool:
        """Whether it changes something that runs."""
        return self.action not in ("unchanged", "prepare", "bake")


def _etcd_images(step: PlannedEtcd) -> tuple[ImageChange, ...]:
    after = step.settings.image
    return tuple(ImageChange(f"Pod kube-system/etcd-{m.node}", "etcd", m.before, after) for m in step.members)


@dataclass(frozen=True)
class Emulation:
    """The older minor that kube-apiserver, kube-controller-manager and kube-scheduler emulate after the run, until
    `upgrader finalize`.
    """

    version: str
    """Such as `1.36`."""
    begins: bool
    """Whether it begins with this run; otherwise it goes on."""
    not_covered: tuple[str, ...]
    """What is not emulated, each in a sentence."""

    @classmethod
    def of(cls, plan: Plan) -> Emulation | None:
        """What a plan emulates."""
        if plan.emulated is None:
            return None
        version = minor_text(plan.emulated)
        return cls(version, minor_of(plan.current) == plan.emulated, _not_covered(plan.target, version))

    def __str__(self) -> str:
        verb = "begins to emulate" if self.begins else "goes on to emulate"
        return f"the control plane {verb} {self.version}; `upgrader finalize` ends it, and is the point of no return"


def _not_covered(target: KubernetesVersion, version: str) -> tuple[str, ...]:
    return (
        f"Flags: {target} knows its own; one that it has lost ends a component at once (check `flags`).",
        f"kube-proxy: it emulates nothing, and runs as {target}.",
        f"Kubelets: upgrade none beyond {version} before `upgrader finalize`; a rollback refuses newer ones.",
        "etcd, CoreDNS and everything else: they are as they are installed.",
    )


@dataclass(frozen=True)
class HopDocument:
    """What the run to one version would change, and what the checks found. No secret has its value in it."""

    current: KubernetesVersion
    target: KubernetesVersion
    digest: str
    """Equal digests mean the same run from the same start, but for secrets' values."""
    blocked: bool
    """Whether a check forbids the run."""
    point_of_no_return: str | None
    """The first step that nothing rolls back: once it has begun, neither it nor a step before it is rolled back."""
    steps: tuple[StepDocument, ...]
    findings: tuple[Finding, ...]
    emulation: Emulation | None = None

    @property
    def mixed(self) -> tuple[str, ...]:
        """As the plan's."""
        return other_versions((change for step in self.steps for change in step.images), self.current)

    @property
    def start(self) -> str:
        """What the cluster runs before: the API server's version; a mixed cluster is called so."""
        return f"{self.current}, mixed with {', '.join(self.mixed)}" if self.mixed else str(self.current)

    @classmethod
    def of(
        cls,
        plan: Plan,
        findings: Sequence[Finding],
        usual: Mapping[str, float],
        hosts: Mapping[str, HostChanges] = MappingProxyType({}),
    ) -> Self:
        """How a plan is shown; `usual` has the seconds that steps took before, `hosts` what playbooks would change, by
        the steps' names.
        """
        steps = tuple(StepDocument.of(step, usual.get(step.name), hosts.get(step.name)) for step in plan.every_step)
        return cls(
            plan.current,
            plan.target,
            plan.digest,
            any(finding.inhibits for finding in findings),
            next((step.name for step in steps if step.undo.how == "none"), None),
            steps,
            tuple(findings),
            Emulation.of(plan),
        )


@dataclass(frozen=True)
class PlanDocument(HopDocument):
    """The hop that a run begins with, and the later ones, where the target is several minors ahead."""

    ahead: tuple[HopDocument, ...] = ()
    """As far as they are known now: each is planned and checked again when it begins."""
    format_version: Literal["1.6"] = FORMAT_VERSION
    offline: Literal[False] = False

    @property
    def to_do(self) -> bool:
        """Whether a run would change something that runs, on this hop or on a later one."""
        return any(step.to_do for hop in self.hops for step in hop.steps)

    @property
    def hops(self) -> tuple[HopDocument, ...]:
        """All of them, in their order."""
        return (self, *self.ahead)
