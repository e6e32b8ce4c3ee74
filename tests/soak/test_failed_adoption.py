"""An adoption that fails."""

from __future__ import annotations

from testkit.adoption import STATIC_PODS, checkpoints, static_pods, undo_adoption
from testkit.lab_cluster import LabCluster, until


def test_rolled_back_adoption_leaves_nothing_that_starts(cluster: LabCluster) -> None:
    """It takes its checkpoints with it: after a power cut kubeadm's static pods serve, alone."""
    undo_adoption(cluster)
    cluster.change_values("kubernetes", {"scheduler": {"extraArgs": {"kube-api-burst": "many"}}})
    failed = cluster.upgrader("adopt", "--yes")
    assert failed.exit_code == 4, failed
    assert static_pods(cluster) == STATIC_PODS
    assert checkpoints(cluster) == []
    cluster.crash_and_boot()
    until("kubeadm's control plane", lambda: not cluster.unready(), timeout_seconds=240)
    assert checkpoints(cluster) == []
    assert len(cluster.on_controller("pidof", "kube-apiserver").split()) == 1
