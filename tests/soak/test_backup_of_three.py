"""One backup restored into three members: taken while one of them is cut off, and killed twice on its way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.backups import Keys, backup_to, flipped, stored_objects
from testkit.command import upgrader
from testkit.kills import kill_at
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.labs import lent_or_new
from upgrader.ports import Kind

CONTROLLERS = ("controller-1", "controller-2", "controller-3")
MANIFEST, ASIDE, DATA = "/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/etcd.yaml", "/var/lib/etcd"
_CONFIG_MAPS = Kind("v1", "configmaps")
_PODS = Kind("v1", "pods")
_NODES = Kind("v1", "nodes", namespaced=False)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of three controllers."""
    with lent_or_new("e2e-backup-3", tmp_path_factory.mktemp("lab"), "--controllers", "3") as cluster:
        yield cluster


@pytest.fixture
def keys(cluster: LabCluster, tmp_path: Path) -> Keys:
    """A key pair; the cluster's folder has the public key."""
    return backup_to(cluster, tmp_path)


def test_three_members_from_one_snapshot(cluster: LabCluster, keys: Keys) -> None:
    """A member that is cut off gives no snapshot. A flipped byte is refused. All members' data is wiped; a restore that
    is killed while members have different data, and again while one of them is started, ends with every object.
    """
    pin_uids(cluster)
    for number in range(50):
        write(cluster, f"backed-up-{number}")
    cut_off(cluster, "controller-1")
    try:
        until("writes at the other two", lambda: goes_on(cluster, "without-controller-1"), timeout_seconds=180)
        before = stored_objects(cluster.kube)
        taken = cluster.upgrader("backup")
    finally:
        join_again(cluster, "controller-1")
    assert taken.exit_code == 0, taken
    assert "controller-1: its etcd member is not part of a quorum" in taken.stderr, taken
    backup = max((keys.identity.parent / "backups").glob("*.age"))
    cluster.wait_healthy(OLD)

    runs = cluster.runs()
    refused = cluster.upgrader("restore", str(flipped(backup)), "--identity", str(keys.identity), "--yes")
    assert refused.exit_code == 2 and "is refused: the file is damaged" in refused.stderr, refused
    assert cluster.runs() == runs
    assert stored_objects(cluster.kube) == before

    wipe(cluster)
    restore = ("restore", str(backup), "--identity", str(keys.identity), "--other-cluster", "--yes")
    kill_at(cluster, "controller-2: moving the old data to", *restore)
    kill_at(cluster, "start: started", *restore)
    ended = cluster.upgrader(*restore, timeout_seconds=1200)
    assert ended.exit_code == 0, ended
    assert stored_objects(cluster.kube) == before
    cluster.wait_healthy(OLD, timeout_seconds=300)
    for name in CONTROLLERS:
        assert "  uid: " in on(cluster, name, "cat", MANIFEST), f"{name}: etcd.yaml is another one"
        on(cluster, name, "sh", "-c", f"rm -r {DATA}/before-restore-*")
    again = cluster.upgrader("check")
    assert again.exit_code == 0, again


def write(cluster: LabCluster, name: str) -> None:
    """A ConfigMap."""
    content = {"text": os.urandom(2000).hex()}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": content}
    cluster.kube.apply(_CONFIG_MAPS, manifest, "default")


def goes_on(cluster: LabCluster, name: str) -> bool:
    """Whether a write succeeds over a new connection: one that leads to the controller that is cut off stays there."""
    cluster.kube.reconnect()
    write(cluster, name)
    return True


def on(cluster: LabCluster, node: str, *command: str) -> str:
    """Standard output of a command on a node."""
    ended = upgrader("-C", cluster.home, "lab", "shell", node, "--name", cluster.name, "--", *command)
    assert ended.exit_code == 0, ended
    return ended.stdout


def pin_uids(cluster: LabCluster) -> None:
    """As an upgrade of the nodes does: each etcd.yaml says the UID that its pod has."""
    for name in CONTROLLERS:
        if "  uid: " in on(cluster, name, "cat", MANIFEST):
            continue
        pod = cluster.kube.get(_PODS, f"etcd-{name}", "kube-system")
        assert pod is not None
        uid = pod["metadata"]["annotations"]["kubernetes.io/config.hash"]
        script = f"sed 's/^metadata:/metadata:\\n  uid: {uid}/' {MANIFEST} > {ASIDE} && mv {ASIDE} {MANIFEST}"
        on(cluster, name, "sh", "-c", script)


def cut_off(cluster: LabCluster, name: str) -> None:
    """It reaches no other controller, but clients and SSH reach it."""
    for address in others(cluster, name):
        on(cluster, name, "ip", "route", "add", "blackhole", f"{address}/32")


def join_again(cluster: LabCluster, name: str) -> None:
    """The other controllers are there again."""
    on(cluster, name, "ip", "route", "flush", "type", "blackhole")


def others(cluster: LabCluster, name: str) -> list[str]:
    """The addresses of the other controllers."""
    return [
        next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")
        for node in cluster.kube.list(_NODES)
        if node["metadata"]["name"] != name
    ]


def wipe(cluster: LabCluster) -> None:
    """Remove the data of every member, and let the first one begin a cluster anew."""
    for name in CONTROLLERS:
        on(
            cluster,
            name,
            "sh",
            "-c",
            f"mv {MANIFEST} {ASIDE}; while pidof etcd; do sleep 0.2; done; rm -r {DATA}/member",
        )
    for name in CONTROLLERS:
        on(cluster, name, "mv", ASIDE, MANIFEST)
    until("an etcd without data", lambda: "member" in on(cluster, CONTROLLERS[0], "ls", DATA), timeout_seconds=180)
