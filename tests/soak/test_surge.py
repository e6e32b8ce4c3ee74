"""A pool that no worker could leave: a spare machine joins while its nodes are upgraded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.api_load import ApiLoad
from testkit.lab_cluster import TARGET, LabCluster, make_cluster
from testkit.nodes import FLOOR, Floor, full_pool, kubelets, node_sources
from testkit.surge import spare_machine, surge_settings


@pytest.fixture
def with_spare(tmp_path: Path) -> Iterator[LabCluster]:
    """An adopted cluster with two workers, and a machine that may become a third one."""
    cluster = make_cluster(f"soak-surge-{os.getpid()}", tmp_path, "--workers", "3")
    try:
        spare_machine(cluster, "worker-3")
        yield cluster
    finally:
        cluster.down()


def test_surge_node_makes_room_and_is_gone_afterwards(with_spare: LabCluster) -> None:
    """A workload fills its pool, and its budget allows no eviction: with a surge node every worker is upgraded, the
    workload keeps its floor, and no client loses a request."""
    cluster = with_spare
    workers = {"name": "workers", "surge": surge_settings(cluster)}
    cluster.change_settings({"nodes": {"source": node_sources([TARGET]), "pools": [workers]}})
    full_pool(cluster.kube, "full")
    with ApiLoad(cluster.folder / "kubeconfig") as load, Floor(cluster.kube, "full") as floor:
        ended = cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=1200)
        seen = load.stop()
    assert ended.exit_code == 0, ended
    assert "surge nodes of the pool workers: worker-3" in ended.stdout + ended.stderr, ended
    cluster.wait_healthy(TARGET)
    assert kubelets(cluster.kube) == dict.fromkeys(("controller-1", "worker-1", "worker-2"), TARGET)
    assert (seen.failed, floor.lowest >= FLOOR) == (0, True), (seen, floor.lowest, floor.unanswered)
