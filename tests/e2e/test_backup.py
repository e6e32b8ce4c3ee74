"""`upgrader backup`, `backup verify` and `restore` on a real cluster. Three controllers: tests/soak."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testkit.backups import Keys, backup_to, flipped, stored_objects
from testkit.command import upgrader
from testkit.kills import kill_at
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

_CONFIG_MAPS = Kind("v1", "configmaps")
_DATA = "/var/lib/etcd"


@pytest.fixture
def keys(cluster: LabCluster, tmp_path: Path) -> Keys:
    """A key pair; the cluster's folder has the public key."""
    return backup_to(cluster, tmp_path)


def take(cluster: LabCluster, keys: Keys) -> Path:
    """A backup."""
    ended = cluster.upgrader("backup")
    assert ended.exit_code == 0, ended
    assert cluster.on_controller("ls", _DATA).split() == ["member"], "something was left on the controller"
    return max((keys.identity.parent / "backups").glob("*.age"))


def test_an_empty_cluster_gets_every_object_back(cluster: LabCluster, keys: Keys) -> None:
    """etcd's data is wiped; a restore that is killed in its middle and run again brings every object back, by number
    and hash. A flipped byte is refused before, and changes nothing. A wrong key: test_bad_input.py.
    """
    for number in range(50):
        content = {"text": os.urandom(2000).hex()}
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"backed-up-{number}"},
            "data": content,
        }
        cluster.kube.apply(_CONFIG_MAPS, manifest, "default")
    before = stored_objects(cluster.kube)
    backup = take(cluster, keys)
    verified = cluster.upgrader("backup", "verify", str(backup), "--identity", str(keys.identity), "--on-controller")
    assert verified.exit_code == 0, verified
    assert_refused(cluster, flipped(backup), keys.identity, "is refused: the file is damaged")

    wipe(cluster)
    restore = ("restore", str(backup), "--identity", str(keys.identity), "--other-cluster", "--yes")
    kill_at(cluster, "replace: started", *restore)
    ended = cluster.upgrader(*restore)
    assert ended.exit_code == 0, ended
    assert stored_objects(cluster.kube) == before
    cluster.wait_healthy(OLD)
    kept = [name for name in cluster.on_controller("ls", _DATA).split() if name != "member"]
    assert kept and all(name.startswith("before-restore-") for name in kept), kept
    cluster.on_controller("rm", "-r", *(f"{_DATA}/{name}" for name in kept))
    again = cluster.upgrader("check")
    assert again.exit_code == 0, again


def assert_refused(cluster: LabCluster, backup: Path, identity: Path, why: str) -> None:
    """It can neither be verified nor restored, and there is no run."""
    runs = cluster.runs()
    verified = upgrader("backup", "verify", backup, "--identity", identity)
    restored = cluster.upgrader("restore", str(backup), "--identity", str(identity), "--yes")
    for ended in (verified, restored):
        assert ended.exit_code == 2, ended
        assert why in ended.stderr, ended
    assert cluster.runs() == runs
    cluster.wait_healthy(OLD, timeout_seconds=5)


def wipe(cluster: LabCluster) -> None:
    """Remove all of etcd's data, and let etcd begin anew.

    The kubelet doesn't run meanwhile: one that still ends the static pod may not start it again when it is put back.
    """
    manifest, aside = "/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/etcd.yaml"
    script = (
        f"mv {manifest} {aside} && while pidof etcd; do sleep 0.2; done; systemctl stop kubelet; "
        f"rm -r {_DATA}/member; mv {aside} {manifest}; systemctl start kubelet"
    )
    cluster.on_controller("sh", "-c", script)
    until("an etcd without data", lambda: "member" in cluster.on_controller("ls", _DATA), timeout_seconds=120)
