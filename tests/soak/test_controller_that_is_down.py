"""A controller without power: a run is refused; with `policy.degraded: allow` it upgrades the others, and the third one
follows when it is back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from testkit.api_load import ApiLoad
from testkit.command import passed, says
from testkit.controllers import CONTROLLERS, etcd_names, nodes_of
from testkit.kills import kill_at
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.labs import lent_or_new
from testkit.versions import COMPONENTS
from upgrader.gates.node_health import is_unreachable
from upgrader.model.left_out import LEFT_OUT
from upgrader.ports import Kind

DOWN, UP = CONTROLLERS[2], CONTROLLERS[:2]
PLACED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_OUTLIVED = 360.0
"""Seconds: a checkpoint that isn't needed is removed after five minutes in which the API answered."""
_NODES, _PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of three controllers."""
    with lent_or_new("e2e-degraded", tmp_path_factory.mktemp("lab"), "--controllers", "3") as cluster:
        yield cluster


def test_run_without_a_controller_and_its_return(cluster: LabCluster) -> None:
    """By default the run is refused, with each way on. Allowed, it is killed on the way to two controllers, continued,
    rolled back, and run again; the third one comes back with its old version, and `resume` brings it to the others'.
    """
    _take_down(cluster)
    refused = cluster.run(TARGET)
    assert refused.exit_code == 3, refused
    says(refused, f"controller {DOWN} is down", "policy.degraded: allow", f"controllers remove {DOWN} --dead")

    cluster.change_settings({"policy": {"degraded": "allow"}})
    kill_at(cluster, "leave-out: applied", "run", "--to", TARGET, "--yes")
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = passed(cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=1800))
        says(
            ended, f"Controller {DOWN} is down. First, it is left out of runs", f"When {DOWN} is back: upgrader resume"
        )
        assert load.stop().failed == 0
    assert _mark(cluster) and _placed(cluster) == dict.fromkeys(PLACED, sorted(UP))
    assert cluster.versions() == dict.fromkeys(COMPONENTS, TARGET)
    assert any(item["id"] == "nodes.left-out" and DOWN in item["found"] for item in cluster.report()["warnings"])
    assert etcd_names(cluster, UP[0]) == sorted(CONTROLLERS), "its member stays"

    early = cluster.upgrader("resume", "--yes")
    assert early.exit_code == 3, early
    says(early, f"controller {DOWN} is left out of runs, and not back yet")
    passed(cluster.upgrader("rollback", "--yes", timeout_seconds=1200))
    assert cluster.versions() == dict.fromkeys(COMPONENTS, OLD)
    passed(cluster.run(TARGET))

    cluster.lab("boot", DOWN)
    until(f"{DOWN} to be Ready", lambda: not is_unreachable(_node(cluster)), timeout_seconds=300)
    until("its member of etcd and SSH", lambda: _is_back(cluster), timeout_seconds=300)
    until(
        "its kube-apiserver to outlive what a checkpoint without a pod lasts for",
        lambda: _serves_alone_for(cluster) > _OUTLIVED,
        timeout_seconds=_OUTLIVED + 300,
    )
    assert not is_unreachable(_node(cluster)), "its kubelet has no other API"
    blocked = cluster.run(TARGET)
    assert blocked.exit_code == 3, blocked
    says(blocked, f"controller {DOWN} was left out of runs, and is back")
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        passed(cluster.upgrader("resume", "--yes", timeout_seconds=1200))
        assert load.stop().failed == 0
    assert not _mark(cluster) and _placed(cluster) == dict.fromkeys(PLACED, sorted(CONTROLLERS))
    cluster.wait_healthy(TARGET)
    assert cluster.upgrader("check", "--to", TARGET).exit_code == 0


def _take_down(cluster: LabCluster) -> None:
    """Cut its power; returns once kube-controller-manager knows."""
    cluster.lab("crash", DOWN)
    until(f"{DOWN} to be unreachable", lambda: is_unreachable(_node(cluster)), timeout_seconds=180)


def _node(cluster: LabCluster) -> Mapping[str, Any]:
    return cluster.kube.get(_NODES, DOWN) or {}


def _is_back(cluster: LabCluster) -> bool:
    """Whether `resume` would find it back; asked without a lock, and answered without a change."""
    said = cluster.upgrader("resume", timeout_seconds=120).stderr
    return not any(each in said for each in ("not back yet", "can't return yet"))


def _serves_alone_for(cluster: LabCluster) -> float:
    """For how many seconds the checkpoint of kube-apiserver has run on it without a break; 0 where it doesn't run."""
    pod = cluster.kube.get(_PODS, f"kube-apiserver-checkpoint-{DOWN}", "kube-system")
    states = [each["state"] for each in (pod or {}).get("status", {}).get("containerStatuses", ())]
    begun = [datetime.fromisoformat(each["running"]["startedAt"]) for each in states if "running" in each]
    alone = len(begun) == len(states) > 0
    return (datetime.now(UTC) - max(begun)).total_seconds() if alone else 0.0


def _mark(cluster: LabCluster) -> str:
    return str((_node(cluster)["metadata"].get("annotations") or {}).get(LEFT_OUT, ""))


def _placed(cluster: LabCluster) -> dict[str, list[str]]:
    """Component → the nodes of its pods."""
    return {component: nodes_of(cluster, component) for component in PLACED}
