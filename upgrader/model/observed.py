"""The state of a cluster at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import minor_of
from upgrader.model.kubeadm_config import KubeadmConfig
from upgrader.model.kubelet_config import KubeletConfig
from upgrader.model.node_mark import NodeMark
from upgrader.model.release import Revision
from upgrader.model.version import KubernetesVersion

__all__ = ["Observed", "ObservedNode", "ObservedRelease"]


@dataclass(frozen=True)
class ObservedRelease:
    """A release in Helm; `manifest` is that of its last good revision, "" if there is none."""

    history: tuple[Revision, ...]
    manifest: str
    namespace: str = "kube-system"

    @property
    def pending(self) -> bool:
        """Whether an interrupted Helm left the newest revision incomplete."""
        return bool(self.history) and self.history[-1].pending

    @property
    def settled(self) -> bool:
        """Whether the newest revision is the deployed one: no failed or interrupted attempt came after it, or is it."""
        return bool(self.history) and self.history[-1].status == "deployed" and self.history[-1].good


@dataclass(frozen=True)
class ObservedNode:
    """What a node's object says, besides its kubelet's version."""

    labels: Mapping[str, str] = field(default_factory=dict)
    mark: NodeMark | None = None
    """How far an interrupted upgrade got."""
    configured: str = ""
    """The fingerprint of its last configuration; "": unknown."""
    architecture: str = ""
    """Of its processor, such as `amd64`."""


@dataclass(frozen=True)
class Observed:
    """The running API server's version, each node's kubelet, and the releases of the pipeline by name.

    A node whose kubelet has never reported a version of Kubernetes is in neither of the mappings.
    """

    server: KubernetesVersion
    kubelets: Mapping[str, KubernetesVersion]
    releases: Mapping[str, ObservedRelease]
    emulated: Minor | None = None
    """The older minor that the API server emulates, or will emulate by its release; None: none."""
    nodes: Mapping[str, ObservedNode] = field(default_factory=dict)
    """By name."""
    kubeadm: KubeadmConfig | None = None
    """None if kubeadm didn't make the cluster."""
    kubelet: KubeletConfig | None = None
    """None if kubeadm didn't make the cluster."""
    etcd: Mapping[str, str] = field(default_factory=dict)
    """Controller → the image in the manifest of its etcd member, if that is a static pod; read only if a run may change
    it.
    """

    @property
    def minor(self) -> Minor:
        """The minor whose APIs and features the cluster has."""
        return self.emulated or minor_of(self.server)
