"""The kubelet's configuration on a lab's machines. Pure."""

from __future__ import annotations

from typing import Any

from upgrader.lab.spec import Placement

__all__ = ["kubelet_configuration"]


def kubelet_configuration(placement: Placement) -> dict[str, Any]:
    """A KubeletConfiguration with what the machines need; kubeadm adds its own settings."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [placement.cluster_dns],
        "nodeStatusUpdateFrequency": "4s",
        # The disk is the machine's, however full: only absolute thresholds work, not percentages.
        "evictionHard": {
            "imagefs.available": "500Mi",
            "imagefs.inodesFree": "1%",
            "memory.available": "100Mi",
            "nodefs.available": "500Mi",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,  # images are never pulled: a removed image is lost
    }
