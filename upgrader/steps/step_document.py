"""A step of a plan as it is shown, to people and to programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from upgrader.model.images import ImageChange
from upgrader.model.json_values import NOT_IN_JSON
from upgrader.model.version import KubernetesVersion

__all__ = [
    "NOTHING_TO_UNDO",
    "HostChange",
    "HostChanges",
    "NodeChange",
    "ObjectChange",
    "StepAction",
    "StepDocument",
    "Undo",
]

StepAction = Literal["install", "upgrade", "unchanged", "playbook", "add", "remove", "prepare", "free", "bake"]


@dataclass(frozen=True)
class ObjectChange:
    """One object that a release would add, change or remove; `diff` is a unified diff of its YAML, Secrets masked."""

    object: str
    """`Deployment kube-system/kube-apiserver`"""
    change: Literal["added", "changed", "removed"]
    diff: str


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
class Undo:
    """What rolls a step back. `none`: nothing does, so the run can't get back to before it."""

    how: str
    """`rollback`, `uninstall`, `playbook`, `none`, `not-needed`; or the kind of a step with its own undo."""
    revision: int | None = None
    """The release's revision that a `rollback` returns to."""
    playbook: str | None = None
    text: str = field(default="", compare=False, metadata=NOT_IN_JSON)
    """How people are told; "": as `how` says."""

    def __str__(self) -> str:
        return self.text or self.how.replace("-", " ")


NOTHING_TO_UNDO = Undo("not-needed")


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
            return "nothing, according to Ansible's check mode"
        return "; ".join(f"{item.host}: {', '.join(item.tasks)}" for item in self.hosts)


@dataclass(frozen=True)
class StepDocument:
    """One step of a run. `usual_seconds` is its median in earlier runs of this folder; null where there are none.

    `kind` is `release`, `playbook`, `nodes`, `surge`, `etcd`, `kubeadm-config`, `kubelet-config`, `preparation`,
    `free` or `bake`; there may be more.

    A `preparation` changes nothing that runs (a backup, the images on their nodes); `free` rolls a release back that an
    interrupted Helm left pending; a `bake` holds all gates for a while; `kubeadm-config` tells kubeadm which version
    runs, and `kubelet-config` what nodes that join later get. A `surge` adds nodes to a pool before it is upgraded, or
    removes them afterwards. `etcd` changes the image of etcd's members.

    `hosts` is what a playbook would change, `nodes` which nodes of a pool are upgraded; null for other kinds.
    """

    name: str
    kind: str
    action: StepAction
    summary: str
    undo: Undo
    usual_seconds: float | None
    images: tuple[ImageChange, ...]
    changes: tuple[ObjectChange, ...]
    hosts: HostChanges | None = None
    nodes: tuple[NodeChange, ...] | None = None

    @property
    def to_do(self) -> bool:
        """Whether it changes something that runs."""
        return self.action not in ("unchanged", "prepare", "bake")
