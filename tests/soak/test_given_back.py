"""The way back to kubeadm: `adopt --undo`, interrupted, and kubeadm's own upgrade after it."""

from __future__ import annotations

import subprocess

from testkit.adoption import STATIC_PODS, static_pods
from testkit.api_load import ApiLoad
from testkit.kills import kill_at
from testkit.kubeadm import bring, upgrade_command
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.waiting import stretched
from upgrader.lab.lifecycle import Lab

MOMENT = "restore kube-apiserver: started"
"""kubeadm's own leaders run again by then, and two kube-apiservers are about to."""


def test_killed_and_given_back_under_load(cluster: LabCluster) -> None:
    """The same command completes an undo that was killed, with no failed request; then it is adopted again."""
    cluster.wait_until_settled(OLD)
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        kill_at(cluster, MOMENT, "adopt", "--undo", "--yes")
        _given_back(cluster)
        seen = load.stop()
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    adopted = cluster.upgrader("adopt", "--yes")
    assert adopted.exit_code == 0, adopted


def test_power_cut_and_kubeadms_own_upgrade(cluster: LabCluster) -> None:
    """The only controller comes back by itself, and the same command completes the undo. kubeadm takes the cluster to
    the next minor then, which can be adopted.
    """
    cluster.wait_until_settled(OLD)
    kill_at(cluster, MOMENT, "adopt", "--undo", "--yes")
    cluster.cut_power()
    until("the control plane", lambda: not cluster.unready(), timeout_seconds=240)
    _given_back(cluster)

    lab = Lab.find(cluster.name)
    bring(lab, TARGET)
    command = [*lab.ssh("controller-1"), upgrade_command("apply", TARGET, "--yes")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=stretched(1000))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    until("kubeadm's control plane", lambda: not cluster.unready(), timeout_seconds=240)
    assert set(cluster.versions().values()) == {TARGET}

    adopted = cluster.upgrader("adopt", "--yes")
    assert adopted.exit_code == 0, adopted
    cluster.wait_healthy(TARGET)


def _given_back(cluster: LabCluster) -> None:
    undone = cluster.upgrader("adopt", "--undo", "--yes", "--take-over")
    assert undone.exit_code == 0, undone
    assert static_pods(cluster) == STATIC_PODS and cluster.releases() == {}
    until("every pod of kubeadm's control plane", lambda: not cluster.unready(), timeout_seconds=120)
