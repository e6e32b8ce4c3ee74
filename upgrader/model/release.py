"""Helm releases: what should be installed, what is installed, and which revision to roll back to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from upgrader.model.version import KubernetesVersion

__all__ = [
    "RECOVERED_RELEASE",
    "UNWAITED",
    "EtcdBefore",
    "NodeBefore",
    "ReleaseSpec",
    "RestartedBefore",
    "RestorePoint",
    "Revision",
    "RevisionStatus",
    "abandoned_after",
    "installed",
    "last_good",
    "merged",
    "without_revision",
]

_MARGIN_SECONDS = 60.0
"""How much longer than its timeout Helm may run: its timeout covers only its wait, which begins after all writes."""

RECOVERED_RELEASE = "kube-apiserver"
"""The only release that a recovery may roll back."""

UNWAITED = "upgrader, without Helm's wait: "
"""How the description of a revision begins that Helm called deployed as soon as it was written."""

RevisionStatus = Literal[
    "unknown",
    "deployed",
    "uninstalled",
    "superseded",
    "failed",
    "uninstalling",
    "pending-install",
    "pending-upgrade",
    "pending-rollback",
]


@dataclass(frozen=True)
class ReleaseSpec:
    """The desired state of a release: a chart (a local folder or a packed chart) and one merged tree of values."""

    name: str
    namespace: str
    chart: Path
    values: Mapping[str, Any] = field(default_factory=dict)


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values with changes, as Helm merges them: maps are merged, everything else is replaced."""
    result = dict(values)
    for key, value in changes.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result


@dataclass(frozen=True)
class Revision:
    """One entry of `helm history`."""

    number: int
    status: RevisionStatus
    chart: str = ""
    """Chart name and version, as in `kube-apiserver-0.1.0`."""
    description: str = ""
    updated: datetime | None = None
    """When Helm last wrote it, in UTC; None when that could not be read. Of a pending one, by this machine's clock."""
    unseen: bool = False
    """Whether Helm hasn't waited for it, and the run that was to wait in its place has not seen it healthy."""
    waits: int = 1
    """Of a pending one: how often Helm waits before it is no longer that. For each hook it has its whole timeout."""

    @property
    def failed_once(self) -> bool:
        """Whether Helm described it as failed (`Release "x" failed: …`), even if its status changed later."""
        return '" failed: ' in self.description

    @property
    def good(self) -> bool:
        """Whether it was once deployed successfully, so that a rollback can return to it.

        Helm marks a revision `superseded` when a later one replaces it; only `deployed` and `superseded` revisions
        worked. Two exceptions, visible only in the description: a *first install* that failed becomes `superseded` once
        a later revision succeeds, and so does an *interrupted* one when a rollback from it fails.
        """
        if self.unseen:
            return False
        unproven = self.failed_once or self.description.startswith("Preparing ")
        return self.status == "deployed" or (self.status == "superseded" and not unproven)

    @property
    def unwaited(self) -> bool:
        """Whether Helm hasn't waited for it."""
        return self.description.startswith(UNWAITED)

    @property
    def pending(self) -> bool:
        """Whether Helm was interrupted while it wrote this revision."""
        return self.status.startswith("pending-") or self.status == "uninstalling"

    def age_seconds(self, now: datetime) -> float:
        """How long ago Helm last wrote it; 0 if that is unknown, so that it never counts as old."""
        return (now - self.updated).total_seconds() if self.updated else 0.0

    def abandoned(self, now: datetime, helm_timeout_seconds: float) -> bool:
        """Whether it has been pending for so long that the Helm that wrote it must have given up.

        A younger one may be a `helm upgrade` that is still running.
        """
        return self.pending and self.age_seconds(now) >= self.abandoned_after(helm_timeout_seconds)

    def abandoned_after(self, helm_timeout_seconds: float) -> float:
        """How many seconds after it was written it counts as abandoned, if it is pending still."""
        return abandoned_after(helm_timeout_seconds, self.waits)


def abandoned_after(helm_timeout_seconds: float, waits: int = 1) -> float:
    """The same of a revision for which Helm waits so often."""
    return helm_timeout_seconds * waits + _MARGIN_SECONDS


@dataclass(frozen=True)
class NodeBefore:
    """A node, its kubelet's version before the step, and its configuration then."""

    node: str
    version: KubernetesVersion
    configured: str = ""
    """A fingerprint; "": unknown."""


@dataclass(frozen=True)
class EtcdBefore:
    """A controller, and its etcd member before the step. The controller itself keeps the files to restore."""

    node: str
    image: str
    version: str
    """As the member reported it, such as `3.6.6`; "" if it didn't."""


@dataclass(frozen=True)
class RestartedBefore:
    """A Deployment of kube-system, and its last `rollout restart` before the step, by its pods' annotation."""

    deployment: str
    at: str = ""


@dataclass(frozen=True)
class RestorePoint:
    """The state to which a rollback returns a step.

    For a release, its last good revision; None if it did not exist: a rollback then uninstalls it. For a playbook
    (`release` ""), the name of the playbook that undoes it; "" if there was none. For a pool of nodes, the `nodes` that
    change. For ConfigMap `kubeadm-config`, the version in it; for `kubelet-config`, the digest of its text. For a
    restart, the annotations of the Deployments. For a surge, its pool. For `etcd`, its members.
    """

    release: str = ""
    namespace: str = ""
    revision: int | None = None
    playbook: str = ""
    begun: int = 0
    """How often the step's own playbook had been started before, by the controllers' markers."""
    nodes: tuple[NodeBefore, ...] = ()
    configuration: str = ""
    """The fingerprint of the configuration that the nodes were to get; "": none."""
    kubeadm: KubernetesVersion | None = None
    """The version in ConfigMap `kubeadm-config`."""
    restarted: tuple[RestartedBefore, ...] = ()
    kubelet: str = ""
    """The digest of the text in ConfigMap `kubelet-config`, which an annotation there keeps."""
    surge: str = ""
    """The pool whose surge nodes are removed."""
    etcd: tuple[EtcdBefore, ...] = ()
    image: str = ""
    """The image that the members of `etcd` were to get."""

    def __str__(self) -> str:
        if self.nodes:
            return f"kubelet {', '.join(sorted({str(node.version) for node in self.nodes}))}"
        if self.kubeadm is not None:
            return f"kubernetesVersion {self.kubeadm}"
        if self.restarted:
            return "the previous pods"
        if self.kubelet:
            return "kubelet-config"
        if self.surge:
            return "no surge nodes"
        if self.etcd:
            return f"etcd {', '.join(sorted({member.image for member in self.etcd}))}"
        if not self.release:
            return self.playbook or "the previous state"
        return f"revision {self.revision}" if self.revision is not None else "not installed"


def installed(history: tuple[Revision, ...]) -> tuple[Revision, ...]:
    """Of a history, oldest first, the revisions since the last uninstall that has kept it: earlier ones are records of
    a release that was removed.
    """
    removed = max((each.number for each in history if each.status == "uninstalled"), default=0)
    return tuple(each for each in history if each.number > removed)


def last_good(history: tuple[Revision, ...]) -> Revision | None:
    """The revision to roll back to: the newest good one. The previous one may have failed."""
    return max((revision for revision in history if revision.good), key=lambda r: r.number, default=None)


def without_revision(manifest: str) -> str:
    """The manifest without the annotation of its own revision, which isn't a real difference."""
    return _REVISION_ANNOTATION.sub("", manifest)


_REVISION_ANNOTATION = re.compile(r"^ *checkpointer\.upgrader\.io/helm-revision:.*\n", re.MULTILINE)
