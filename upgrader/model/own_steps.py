"""The names of the steps that upgrader adds to those of upgrader.yaml; for pools of nodes, see `NodePool.step`.

No step of upgrader.yaml may have a name in `OWN_STEPS`; `ETCD` is reserved only if there is a section `etcd`.
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
"""The names in journals of earlier versions → the present names."""

OWN_STEPS = frozenset({BACKUP, BUNDLE, IMAGES, TRIAL, STAGE_NODES, KUBEADM_CONFIG, KUBELET_CONFIG, BAKE})
