"""A worker without power: before a run nothing waits for it, and one that loses it in the run isn't called healthy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from testkit.command import passed, running, says
from testkit.lab_cluster import OLD, TARGET, LabCluster, make_cluster, until
from testkit.versions import COMPONENTS
from testkit.waiting import stretched
from upgrader.gates.node_health import is_unreachable
from upgrader.ports import Kind

DOWN, UP = "worker-2", ("controller-1", "worker-1")
_NODES = Kind("v1", "nodes", namespaced=False)
_PODS = Kind("v1", "pods")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster with one controller and two workers."""
    cluster = make_cluster(f"e2e-down-{os.getpid()}", tmp_path_factory.mktemp("lab"), "--workers", "2")
    try:
        yield cluster
    finally:
        cluster.down()


@pytest.fixture
def cluster(made: LabCluster) -> LabCluster:
    """The same, with all nodes up."""
    made.restore_files()
    made.wait_until_settled(OLD)
    return made


def test_worker_that_is_down_before_blocks_nothing(cluster: LabCluster) -> None:
    """`plan` and the report name it; the run upgrades all but its pods, and `rollback` undoes that. `certs` asks
    nothing of it. Once it is back, it has the pods that all others have.
    """
    _take_down(cluster)
    try:
        planned = passed(cluster.upgrader("plan", "--to", TARGET))
        says(planned, f"worker {DOWN} is down", "the run leaves it out", "DaemonSet kube-system/kube-proxy")
        ended = passed(cluster.run())
        says(ended, f"{DOWN} is down: this step, not Helm, waits for the other pods")
        (warned,) = [item for item in cluster.report()["warnings"] if item["id"] == "workers.down"]
        assert DOWN in warned["found"]
        assert cluster.versions() == dict.fromkeys(COMPONENTS, TARGET)
        assert _proxies(cluster) == dict.fromkeys(UP, TARGET)
        passed(cluster.upgrader("certs", "show"))
        passed(cluster.upgrader("certs", "renew", "--within", "1s", "--yes"))
        undone = passed(cluster.upgrader("rollback", "--yes"))
        says(undone, f"{DOWN} is down: this step, not Helm, waits for the other pods of release kubernetes")
        assert _proxies(cluster) == dict.fromkeys(UP, OLD)
    finally:
        _bring_back(cluster)


def test_worker_that_loses_power_in_the_run_counts(cluster: LabCluster) -> None:
    """It was healthy before, and no other may be missing: the step fails and says why, and its rollback doesn't wait
    for that worker.
    """
    cluster.change_settings({"helm": {"timeout": "150s"}, "gates": {"unhealthyWorkers": 0}})
    try:
        with running("-C", cluster.folder, "run", "--to", TARGET, "--new", "--yes") as run:
            until("Helm at work on kubernetes", lambda: _pending(cluster), timeout_seconds=600, interval_seconds=0.2)
            cluster.lab("crash", DOWN)
            output, _ = run.communicate(timeout=stretched(1200))
        assert run.returncode == 4, output
        assert DOWN in output
        assert cluster.report()["outcome"] == "rolled-back"
        assert cluster.versions() == dict.fromkeys(COMPONENTS, OLD)
    finally:
        _bring_back(cluster)


def _take_down(cluster: LabCluster) -> None:
    """Cut its power; returns once kube-controller-manager knows."""
    cluster.lab("crash", DOWN)
    until(f"{DOWN} to be unreachable", lambda: is_unreachable(_node(cluster)), timeout_seconds=180)


def _bring_back(cluster: LabCluster) -> None:
    cluster.lab("boot", DOWN)
    every = dict.fromkeys((*UP, DOWN), OLD)
    until("the worker to be back, with the others' pods", lambda: _proxies(cluster) == every, timeout_seconds=240)
    cluster.wait_healthy(OLD)


def _node(cluster: LabCluster) -> Any:
    return cluster.kube.get(_NODES, DOWN) or {}


def _proxies(cluster: LabCluster) -> dict[str, str]:
    """Node → the version of its Ready kube-proxy."""
    found = {}
    for pod in cluster.kube.list(_PODS, "kube-system", labels="k8s-app=kube-proxy"):
        conditions: Any = pod.get("status", {}).get("conditions", [])
        if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions):
            found[pod["spec"]["nodeName"]] = pod["spec"]["containers"][0]["image"].rpartition(":")[2]
    return found


def _pending(cluster: LabCluster) -> bool:
    return cluster.releases()["kubernetes"]["status"].startswith("pending")
