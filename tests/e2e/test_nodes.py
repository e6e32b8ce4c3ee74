"""A minor upgrade with its nodes: one controller and two workers, drained one after the other."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from testkit.api_load import ApiLoad
from testkit.lab_cluster import TARGET, LabCluster, make_cluster, until
from upgrader.errors import ApiError
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind, Kube

_NODES = Kind("v1", "nodes", namespaced=False)
_PODS = Kind("v1", "pods")
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
_LABELS = {"app": "web"}
_FLOOR = 2


@pytest.fixture
def with_workers(tmp_path: Path) -> Iterator[LabCluster]:
    """An adopted cluster with two workers."""
    cluster = make_cluster(f"e2e-nodes-{os.getpid()}", tmp_path, "--workers", "2")
    try:
        yield cluster
    finally:
        cluster.down()


class Floor:
    """The fewest pods of the workload that were Ready at once, while it is watched."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.lowest = 99
        self.unanswered = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            try:
                self.lowest = min(self.lowest, _ready(self.kube))
            except ApiError:
                self.unanswered += 1


def test_one_hop_with_its_nodes(with_workers: LabCluster) -> None:
    """Controller and workers get the new kubelet, a workload keeps its floor, and no client loses a request."""
    cluster = with_workers
    cluster.change_settings({"nodes": {"source": _source()}})
    _workload(cluster.kube)
    with ApiLoad(cluster.folder / "kubeconfig") as load, Floor(cluster.kube) as floor:
        ended = cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=1200)
        seen = load.stop()
    assert ended.exit_code == 0, ended
    cluster.wait_healthy(TARGET)
    nodes = {node["metadata"]["name"]: node for node in cluster.kube.list(_NODES)}
    assert {name: node["status"]["nodeInfo"]["kubeletVersion"] for name, node in nodes.items()} == {
        "controller-1": TARGET,
        "worker-1": TARGET,
        "worker-2": TARGET,
    }
    assert not any(node["spec"].get("unschedulable") for node in nodes.values())
    assert (seen.failed, floor.lowest >= _FLOOR) == (0, True), (seen, floor.lowest, floor.unanswered)

    again = cluster.upgrader("plan", "--to", TARGET, "--detailed-exitcode")
    assert again.exit_code == 0, again


def _source() -> dict[str, Any]:
    variables: dict[str, Any] = node_source(TARGET, Silent()).variables()
    source = variables["node_source"]
    return {**source, "sha256": {TARGET: source["sha256"]}}


def _workload(kube: Kube) -> None:
    """Three replicas, of which two must be there at any time."""
    pod = {
        "metadata": {"labels": _LABELS},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "web",
                    "image": f"upgrader.lab/tools:{IMAGE_VERSIONS['tools']}",
                    "command": ["sleep", "86400"],
                }
            ],
        },
    }
    selector = {"matchLabels": _LABELS}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": selector, "template": pod},
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": _FLOOR, "selector": selector},
    }
    kube.apply(_DEPLOYMENTS, deployment, "default")
    kube.apply(_BUDGETS, budget, "default")
    until("three pods of the workload to be Ready", lambda: _ready(kube) == 3, timeout_seconds=60)


def _ready(kube: Kube) -> int:
    pods = kube.list(_PODS, "default", labels="app=web")
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True"
        for pod in pods
        for condition in pod.get("status", {}).get("conditions", [])
    )
