"""Adoption's undo, and a second adoption under load."""

from __future__ import annotations

from testkit.adoption import undo_adoption
from testkit.api_load import ApiLoad
from testkit.lab_cluster import OLD, LabCluster
from testkit.workload import Workload
from upgrader.ports import Kind

_ENDPOINTS = Kind("v1", "endpoints")


def test_undo_and_adopt_once_more(cluster: LabCluster) -> None:
    """`adopt --undo` restores kubeadm's manifests and removes the releases; a second adoption keeps the API available.

    Clients that read Endpoints, not slices, find the API as before.

    kubeadm's static pod closes kept HTTP/1.1 connections without notice: that may cost the writing client one write.
    """
    workload = Workload(cluster.kube)
    workload.deploy()
    pods = workload.pods()
    before = (cluster.kube.get(_ENDPOINTS, "kubernetes", "default") or {}).get("subsets")
    assert before
    assert "control-plane.static" not in cluster.upgrader("check").stdout

    undo_adoption(cluster)
    checked = cluster.upgrader("check")
    assert checked.exit_code == 3 and "control-plane.static" in checked.stdout, checked
    assert set(cluster.versions().values()) == {OLD}

    with ApiLoad(cluster.folder / "kubeconfig") as load:
        adopted = cluster.upgrader("adopt", "--yes")
        seen = load.stop()
    assert adopted.exit_code == 0, adopted
    assert seen.failed == seen.lost_writes <= 1, seen
    cluster.wait_healthy(OLD)
    assert workload.pods().disturbances_since(pods) == ()
    workload.stop()
    found = cluster.kube.get(_ENDPOINTS, "kubernetes", "default")
    assert found is not None and found["subsets"] == before, found
