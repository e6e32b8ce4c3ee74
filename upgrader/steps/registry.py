"""The kinds of step, in the order in which they are planned: all that a new one needs beside its folder."""

from __future__ import annotations

from typing import Any

from upgrader.steps.backup.kind import BackupKind
from upgrader.steps.bake.kind import BakeKind
from upgrader.steps.etcd.kind import EtcdKind
from upgrader.steps.images.kind import ImagesKind
from upgrader.steps.kubeadm_config.kind import KubeadmConfigKind
from upgrader.steps.kubelet_config.kind import KubeletConfigKind
from upgrader.steps.nodes.kind import NodesKind
from upgrader.steps.playbook.kind import PlaybookKind
from upgrader.steps.release.kind import ReleaseKind
from upgrader.steps.step_kind import OwnKind, PlannedKind
from upgrader.steps.surge.kind import SurgeKind
from upgrader.steps.trial.kind import TrialKind

__all__ = ["OWN_KINDS", "PLANNED_KINDS"]

PLANNED_KINDS: tuple[type[PlannedKind[Any]], ...] = (
    EtcdKind,  # before a kube-apiserver that may want a newer one; an old one works with it
    ReleaseKind,
    PlaybookKind,
    KubeadmConfigKind,  # before the nodes: `kubeadm upgrade node` on one of them goes by it
    NodesKind,
    SurgeKind,  # around the nodes of its pool
    KubeletConfigKind,  # once every node has shown that it works
)
"""What a plan is made of."""

OWN_KINDS: tuple[type[OwnKind], ...] = (BackupKind, ImagesKind, TrialKind, BakeKind)
"""What an upgrade has besides."""
