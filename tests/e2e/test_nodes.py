"""A minor upgrade with its nodes: one controller and two workers, drained one after the other, with a spare machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.api_load import ApiLoad
from testkit.lab_cluster import TARGET, LabCluster, make_cluster
from testkit.nodes import FLOOR, Floor, full_pool, kubelet_settings, kubelets, node_sources, three_replicas
from testkit.surge import spare_machine, surge_settings
from upgrader.ports import Kind

_CONFIG_MAPS = Kind("v1", "configmaps")
_NODES = Kind("v1", "nodes", namespaced=False)


@pytest.fixture
def with_workers(tmp_path: Path) -> Iterator[LabCluster]:
    """An adopted cluster with two workers, and a machine that may become a third one."""
    cluster = make_cluster(f"e2e-nodes-{os.getpid()}", tmp_path, "--workers", "3")
    try:
        spare_machine(cluster, "worker-3")
        yield cluster
    finally:
        cluster.down()


def test_one_hop_with_its_nodes(with_workers: LabCluster) -> None:
    """Controller and workers get the new kubelet, with a field of its configuration, as will nodes that join later; a
    workload keeps its floor, and no client loses a request. Another one fills its pool, so that no worker could be
    drained: a surge node makes room for it, and is gone afterwards.
    """
    cluster = with_workers
    workers = {"name": "workers", "surge": surge_settings(cluster)}
    fields = {"kubeletConfiguration": {"maxPods": 117}, "pools": [workers]}
    cluster.change_settings({"nodes": {"source": node_sources([TARGET]), **fields}})
    three_replicas(cluster.kube)
    full_pool(cluster.kube, "full")
    load, floor, full = ApiLoad(cluster.folder / "kubeconfig"), Floor(cluster.kube), Floor(cluster.kube, "full")
    with load, floor, full:
        ended = cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=1200)
        seen = load.stop()
    assert ended.exit_code == 0, ended
    assert "surge nodes of the pool workers: worker-3" in ended.stdout + ended.stderr, ended
    cluster.wait_healthy(TARGET)
    assert kubelets(cluster.kube) == dict.fromkeys(("controller-1", "worker-1", "worker-2"), TARGET)
    assert kubelet_settings(cluster.kube, "maxPods") == dict.fromkeys(kubelets(cluster.kube), 117)
    joining = cluster.kube.get(_CONFIG_MAPS, "kubelet-config", "kube-system")
    assert joining is not None and "maxPods: 117" in joining["data"]["kubelet"]
    assert not any(node["spec"].get("unschedulable") for node in cluster.kube.list(_NODES))
    lowest = floor.lowest, full.lowest
    assert (seen.failed, min(lowest) >= FLOOR) == (0, True), (seen, lowest, floor.unanswered, full.unanswered)

    again = cluster.upgrader("plan", "--to", TARGET, "--detailed-exitcode")
    assert again.exit_code == 0, again
