"""A minor upgrade with its nodes: one controller and two workers, drained one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.api_load import ApiLoad
from testkit.lab_cluster import TARGET, LabCluster, make_cluster
from testkit.nodes import FLOOR, Floor, kubelet_settings, kubelets, node_sources, three_replicas
from upgrader.ports import Kind

_CONFIG_MAPS = Kind("v1", "configmaps")
_NODES = Kind("v1", "nodes", namespaced=False)


@pytest.fixture
def with_workers(tmp_path: Path) -> Iterator[LabCluster]:
    """An adopted cluster with two workers."""
    cluster = make_cluster(f"e2e-nodes-{os.getpid()}", tmp_path, "--workers", "2")
    try:
        yield cluster
    finally:
        cluster.down()


def test_one_hop_with_its_nodes(with_workers: LabCluster) -> None:
    """Controller and workers get the new kubelet, with a field of its configuration, as will nodes that join later; a
    workload keeps its floor, and no client loses a request.
    """
    cluster = with_workers
    fields = {"kubeletConfiguration": {"maxPods": 117}, "pools": [{"name": "workers"}]}
    cluster.change_settings({"nodes": {"source": node_sources([TARGET]), **fields}})
    three_replicas(cluster.kube)
    with ApiLoad(cluster.folder / "kubeconfig") as load, Floor(cluster.kube) as floor:
        ended = cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=1200)
        seen = load.stop()
    assert ended.exit_code == 0, ended
    cluster.wait_healthy(TARGET)
    assert kubelets(cluster.kube) == dict.fromkeys(("controller-1", "worker-1", "worker-2"), TARGET)
    assert kubelet_settings(cluster.kube, "maxPods") == dict.fromkeys(kubelets(cluster.kube), 117)
    joining = cluster.kube.get(_CONFIG_MAPS, "kubelet-config", "kube-system")
    assert joining is not None and "maxPods: 117" in joining["data"]["kubelet"]
    assert not any(node["spec"].get("unschedulable") for node in cluster.kube.list(_NODES))
    assert (seen.failed, floor.lowest >= FLOOR) == (0, True), (seen, floor.lowest, floor.unanswered)

    again = cluster.upgrader("plan", "--to", TARGET, "--detailed-exitcode")
    assert again.exit_code == 0, again
