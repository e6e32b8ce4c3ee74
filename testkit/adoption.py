"""What an adoption leaves on a controller, and its undo."""

from __future__ import annotations

from testkit.lab_cluster import LabCluster, until

__all__ = ["STATIC_PODS", "checkpoints", "static_pods", "undo_adoption"]

STATIC_PODS = {"kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"}


def static_pods(cluster: LabCluster) -> set[str]:
    """The manifests of kubeadm's control plane that the kubelet sees."""
    return STATIC_PODS & set(cluster.on_controller("ls", "/etc/kubernetes/manifests").split())


def checkpoints(cluster: LabCluster) -> list[str]:
    """What there is of checkpoints on the controller."""
    places = "/etc/kubernetes/manifests/checkpoint-* /etc/kubernetes/checkpointer/workloads/*"
    return cluster.on_controller("sh", "-c", f"ls -d {places} 2>/dev/null || true").split()


def undo_adoption(cluster: LabCluster) -> None:
    """`adopt --undo`: kubeadm's manifests are back, the releases gone, and its pods Ready."""
    undone = cluster.upgrader("adopt", "--undo", "--yes")
    assert undone.exit_code == 0, undone
    assert static_pods(cluster) == STATIC_PODS
    assert cluster.releases() == {}
    until("every pod of kubeadm's control plane", lambda: not cluster.unready(), timeout_seconds=120)
