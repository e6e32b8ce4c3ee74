"""Controllers leave an adopted cluster, and join it, under load: no client loses a request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.api_load import ApiLoad, LoadSeen
from testkit.command import Ended
from testkit.controllers import (
    CONTROLLERS,
    add_to_inventory,
    etcd_names,
    nodes_of,
    on_node,
    remove_from_inventory,
)
from testkit.kills import kill_at
from testkit.lab_cluster import TARGET, LabCluster, until
from testkit.labs import lent_or_new
from upgrader.ports import Kind

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
MANIFESTS = "/etc/kubernetes/manifests"
_NODES = Kind("v1", "nodes", namespaced=False)
_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of three controllers."""
    with lent_or_new("e2e-change", tmp_path_factory.mktemp("lab"), "--controllers", "3") as cluster:
        yield cluster


def loaded(cluster: LabCluster, *arguments: str, killed_at: str = "") -> tuple[Ended, LoadSeen]:
    """A command while clients send requests; killed when it says something, and then repeated."""
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        if killed_at:
            kill_at(cluster, killed_at, *arguments)
        ended = cluster.upgrader(*arguments)
        return ended, load.stop()


def endpoints(cluster: LabCluster) -> int:
    """How many addresses Service `kubernetes` has."""
    slices = cluster.kube.list(_SLICES, "default", labels="kubernetes.io/service-name=kubernetes")
    return len({each for item in slices for end in item.get("endpoints") or () for each in end["addresses"]})


def consists_of(cluster: LabCluster, *controllers: str) -> None:
    """Each of these, and no other, has one pod of each component, a member of etcd, and an endpoint."""
    for component in COMPONENTS:
        until(
            f"{component} on {controllers}",
            lambda component=component: nodes_of(cluster, component) == sorted(controllers),  # type: ignore[misc]
            timeout_seconds=60,
        )
    assert etcd_names(cluster, controllers[0]) == sorted(controllers)
    until("its endpoints", lambda: endpoints(cluster) == len(controllers), timeout_seconds=30)
    labelled = {node["metadata"]["name"] for node in cluster.kube.list(_NODES, labels=_CONTROL_PLANE)}
    assert labelled == set(controllers)


def ready(cluster: LabCluster, node: str) -> bool:
    """Whether its kubelet says so."""
    found = cluster.kube.get(_NODES, node) or {"status": {}}
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"].get("conditions") or ())


def reboot(cluster: LabCluster, node: str) -> None:
    """Cut its power, let the others notice, and switch it on."""
    cluster.lab("crash", node)
    until(f"{node} to be not Ready", lambda: not ready(cluster, node), timeout_seconds=120)
    cluster.lab("boot", node)
    until(f"{node} to be Ready", lambda: ready(cluster, node), timeout_seconds=120)


def test_controllers_leave_and_join_under_load(cluster: LabCluster) -> None:
    """One is removed, killed on the way and continued; it joins again by kubeadm, is adopted, killed on the way and
    continued; and the next run upgrades it with the others.
    """
    leaving = CONTROLLERS[2]
    killed_at = "forget-checkpoints: started"
    ended, seen = loaded(cluster, "controllers", "remove", leaving, "--yes", killed_at=killed_at)
    assert ended.exit_code == 0, ended
    assert seen.failed == 0, seen
    consists_of(cluster, *CONTROLLERS[:2])
    assert on_node(cluster, leaving, f"ls {MANIFESTS}; ls -d /etc/kubernetes/checkpointer || true").split() == []
    line = remove_from_inventory(cluster, leaving)
    assert cluster.upgrader("check").exit_code == 0

    cluster.lab("join", leaving)
    blocked = cluster.run(TARGET)
    assert blocked.exit_code == 3 and "upgrader adopt --new-controllers" in blocked.stdout + blocked.stderr, blocked
    unlisted = cluster.upgrader("adopt", "--new-controllers", "--yes")
    assert unlisted.exit_code == 3 and f"{leaving}:" in unlisted.stderr, unlisted
    add_to_inventory(cluster, leaving, line)
    killed_at = "retire kube-apiserver: applied"
    ended, seen = loaded(cluster, "adopt", "--new-controllers", "--yes", killed_at=killed_at)
    assert ended.exit_code == 0, ended
    assert seen.failed == 0, seen
    consists_of(cluster, *CONTROLLERS)
    left = on_node(cluster, leaving, f"ls {MANIFESTS}").split()
    assert [name for name in left if not name.startswith("checkpoint-")] == ["etcd.yaml"]
    assert "Nothing to do" in cluster.upgrader("adopt", "--new-controllers", "--yes").stderr
    ended = cluster.run(TARGET)
    assert ended.exit_code == 0, ended
    cluster.wait_healthy(TARGET)


def test_power_cut_on_the_way(cluster: LabCluster) -> None:
    """The controller that leaves, and joins again, loses its power in the middle of either: the same command completes
    it.
    """
    leaving = CONTROLLERS[2]
    kill_at(cluster, "forget-checkpoints: started", "controllers", "remove", leaving, "--yes")
    reboot(cluster, leaving)
    ended = cluster.upgrader("controllers", "remove", leaving, "--yes")
    assert ended.exit_code == 0, ended
    consists_of(cluster, *CONTROLLERS[:2])
    line = remove_from_inventory(cluster, leaving)

    cluster.lab("join", leaving)
    add_to_inventory(cluster, leaving, line)
    kill_at(cluster, "retire kube-apiserver: applied", "adopt", "--new-controllers", "--yes")
    reboot(cluster, leaving)
    until("the control plane", lambda: not cluster.unready(), timeout_seconds=240)
    ended = cluster.upgrader("adopt", "--new-controllers", "--yes")
    assert ended.exit_code == 0, ended
    consists_of(cluster, *CONTROLLERS)


def test_dead_controller_is_removed(cluster: LabCluster) -> None:
    """Its power is cut: the others remove its member, its node and its replicas; without --dead nothing is removed."""
    dead = CONTROLLERS[1]
    cluster.lab("crash", dead)
    until("its node to be not Ready", lambda: not ready(cluster, dead), timeout_seconds=120)
    asked = cluster.upgrader("controllers", "remove", dead, "--yes")
    assert asked.exit_code == 3 and "--dead" in asked.stderr, asked
    ended, seen = loaded(cluster, "controllers", "remove", dead, "--dead", "--yes")
    assert ended.exit_code == 0, ended
    assert seen.failed == 0, seen
    consists_of(cluster, CONTROLLERS[0], CONTROLLERS[2])
    assert cluster.kube.get(_NODES, dead) is None
