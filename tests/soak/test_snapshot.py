"""A saved lab can be restored, whatever happened since. Part of `make soak`: all tests build on it."""

from __future__ import annotations

from testkit.lab_cluster import OLD, LabCluster
from upgrader.ports import Kind

_CONFIG_MAPS = Kind("v1", "configmaps")


def test_restore_brings_cluster_disks_and_folder_back(cluster: LabCluster) -> None:
    """`lab restore` removes what was added to the API, a node's disk and the cluster folder, but keeps runs."""
    later = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later", "namespace": "default"}}
    cluster.kube.create(_CONFIG_MAPS, later, "default")
    cluster.on_controller("touch", "/root/later", "/etc/kubernetes/later")
    cluster.change_values("kubernetes", {"later": 1})
    (cluster.folder / "runs" / "later").mkdir(parents=True)
    cluster.restore()
    assert cluster.kube.get(_CONFIG_MAPS, "later", "default") is None
    assert cluster.on_controller("sh", "-c", "ls /root /etc/kubernetes | grep later || true") == ""
    assert "later" not in (cluster.folder / "values" / "kubernetes.yaml").read_text()
    assert "later" in cluster.runs()
    assert cluster.troubles(OLD) == []
