"""Checks what an adoption creates on a controller, and that its undo removes it."""

from __future__ import annotations

from testkit.lab_cluster import LabCluster, until

__all__ = ["STATIC_PODS", "checkpoints", "static_pods", "undo_adoption"]

STATIC_PODS = {"kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"}


def static_pods(cluster: LabCluster) -> set[str]:
    """The manifests of kubeadm's control plane that the kubelet reads."""
    return STATIC_PODS & set(cluster.on_controller("ls", "/etc/kubernetes/manifests").split())


def checkpoints(cluster: LabCluster) -> list[str]:
    """The checkpoints that exist on the controller."""
    places = "/etc/kubernetes/manifests/checkpoint-* /etc/kubernetes/checkpointer/workloads/*"
    return cluster.on_controller("sh", "-c", f"ls -d {places} 2>/dev/null || true").split()


def undo_adoption(cluster: LabCluster) -> None:
    """`adopt --undo`: kubeadm's manifests are restored, the releases uninstalled, and its pods Ready."""
    undone = cluster.upgrader("adopt", "--undo", "--yes")
    assert undone.exit_code == 0, undone
    assert static_pods(cluster) == STATIC_PODS
    assert cluster.releases() == {}
    until("every pod of kubeadm's control plane", lambda: not cluster.unready(), timeout_seconds=120)
