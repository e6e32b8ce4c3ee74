"""Adoption of kubeadm's control plane, and its undo."""

from __future__ import annotations

from testkit.api_load import ApiLoad
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.workload import Workload

_STATIC_PODS = {"kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"}


def static_pods(cluster: LabCluster) -> set[str]:
    """The manifests of kubeadm's control plane that the kubelet sees."""
    return _STATIC_PODS & set(cluster.on_controller("ls", "/etc/kubernetes/manifests").split())


def test_adopting_again_changes_nothing(cluster: LabCluster) -> None:
    """`adopt` on an adopted cluster succeeds, and leaves every release at its revision."""
    before = cluster.releases()
    ended = cluster.upgrader("adopt", "--yes")
    assert ended.exit_code == 0, ended
    assert cluster.releases() == before
    assert static_pods(cluster) == set()


def test_undo_failed_adoption_and_adopt_once_more(cluster: LabCluster) -> None:
    """`adopt --undo` restores kubeadm's manifests and removes the releases; an adoption that fails takes its
    checkpoints with it, so that after a power cut kubeadm's static pods serve, alone; and one that doesn't fail keeps
    the API available.

    kubeadm's static pod closes kept HTTP/1.1 connections without notice: that may cost the writing client one write.
    """
    undone = cluster.upgrader("adopt", "--undo", "--yes")
    assert undone.exit_code == 0, undone
    assert static_pods(cluster) == _STATIC_PODS
    assert cluster.releases() == {}
    until("every pod of kubeadm's control plane", lambda: not cluster.unready(), timeout_seconds=120)
    assert set(cluster.versions().values()) == {OLD}

    cluster.change_values("kubernetes", {"scheduler": {"extraArgs": {"no-such-flag": "true"}}})
    failed = cluster.upgrader("adopt", "--yes")
    assert failed.exit_code == 4, failed
    assert static_pods(cluster) == _STATIC_PODS
    assert _checkpoints(cluster) == []
    cluster.crash_and_boot()
    until("kubeadm's control plane", lambda: not cluster.unready(), timeout_seconds=240)
    assert _checkpoints(cluster) == []
    assert len(cluster.on_controller("pidof", "kube-apiserver").split()) == 1

    cluster.restore_files()
    workload = Workload(cluster.kube)
    workload.deploy()
    pods = workload.pods()
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        adopted = cluster.upgrader("adopt", "--yes")
        seen = load.stop()
    assert adopted.exit_code == 0, adopted
    assert seen.failed == seen.lost_writes <= 1, seen
    cluster.wait_healthy(OLD)
    assert workload.pods().disturbances_since(pods) == ()


def _checkpoints(cluster: LabCluster) -> list[str]:
    """What there is of checkpoints on the controller."""
    places = "/etc/kubernetes/manifests/checkpoint-* /etc/kubernetes/checkpointer/workloads/*"
    return cluster.on_controller("sh", "-c", f"ls -d {places} 2>/dev/null || true").split()
