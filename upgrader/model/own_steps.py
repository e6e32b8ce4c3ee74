"""The names of the steps that a run has beside those of upgrader.yaml; those of pools of nodes are `NodePool.step`."""

from __future__ import annotations

__all__ = [
    "BACKUP",
    "BAKE",
    "BUNDLE",
    "IMAGES",
    "KUBEADM_CONFIG",
    "KUBELET_CONFIG",
    "OWN_STEPS",
    "STAGE_NODES",
    "TRIAL",
]

BACKUP = "etcd backup"
BUNDLE = "bundle"
IMAGES = "images"
TRIAL = "flags and files"
STAGE_NODES = "stage-nodes"
KUBEADM_CONFIG = "kubeadm-config"
KUBELET_CONFIG = "kubelet-config"
BAKE = "bake all gates"

OWN_STEPS = frozenset({BACKUP, BUNDLE, IMAGES, TRIAL, STAGE_NODES, KUBEADM_CONFIG, KUBELET_CONFIG, BAKE})
