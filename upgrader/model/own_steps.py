"""The names of the steps that a run has beside those of upgrader.yaml; those of pools of nodes are `NodePool.step`.

`OWN_STEPS` are those that no step of upgrader.yaml may be called, whatever else is in there; `ETCD` is one of them only
where there is a section `etcd`.
"""

from __future__ import annotations

__all__ = [
    "BACKUP",
    "BAKE",
    "BUNDLE",
    "ETCD",
    "IMAGES",
    "KUBEADM_CONFIG",
    "KUBELET_CONFIG",
    "OWN_STEPS",
    "RENAMED",
    "STAGE_NODES",
    "TRIAL",
]

BACKUP = "backup"
BUNDLE = "bundle"
ETCD = "etcd"
IMAGES = "images"
TRIAL = "trial"
STAGE_NODES = "stage-nodes"
KUBEADM_CONFIG = "kubeadm-config"
KUBELET_CONFIG = "kubelet-config"
BAKE = "bake"

RENAMED = {"etcd backup": BACKUP, "flags and files": TRIAL, "bake all gates": BAKE}
"""Names that journals of earlier versions have → as they are called now."""

OWN_STEPS = frozenset({BACKUP, BUNDLE, IMAGES, TRIAL, STAGE_NODES, KUBEADM_CONFIG, KUBELET_CONFIG, BAKE})
