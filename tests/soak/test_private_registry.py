"""Images from a registry that needs a login: what starts after a power cut, while no registry can be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.command import upgrader
from testkit.lab_cluster import OLD, TARGET, LabCluster, until

_NODE_LOGIN = "/var/lib/kubelet/config.json"
_FINDING = "pull-secrets.no-checkpoint"


@pytest.fixture
def private(tmp_path: Path) -> Iterator[LabCluster]:
    """A cluster that kubeadm made, whose charts' images come from a registry with a login."""
    cluster = LabCluster(f"e2e-private-{os.getpid()}", tmp_path, tmp_path / "kept")
    try:
        cluster.lab("up", "--kubernetes", OLD, "--registry")
        yield cluster
    finally:
        upgrader("-C", cluster.home, "lab", "down", "--force", "--name", cluster.name)


def test_standby_pods_start_without_the_registry(private: LabCluster) -> None:
    """With the node's own login a pod's image is free for static pods: after a power cut, without registry and login,
    the standby pod serves, and the control plane is restored.
    """
    adopted = private.upgrader("adopt", "--yes")
    assert adopted.exit_code == 0, adopted
    private.wait_healthy(OLD)
    private.lab("crash", "registry-1")
    private.on_controller("rm", _NODE_LOGIN)
    private.crash_and_boot()
    until("the control plane", lambda: not private.unready(), timeout_seconds=240)
    private.wait_until_settled(OLD)


def test_pods_with_a_login_of_their_own_are_refused(private: LabCluster) -> None:
    """A checkpoint that could not start is none: adoption says so before it changes anything, and names what to do.
    Started despite that finding, it fails at the first checkpoint for the same reason, and is rolled back.
    """
    private.on_controller("rm", _NODE_LOGIN)
    for release in ("pod-checkpointer", "kube-apiserver", "kubernetes"):
        private.change_values(release, {"imagePullSecrets": [{"name": "registry-login"}]})
    before = private.releases()
    refused = private.upgrader("adopt", "--yes")
    assert refused.exit_code == 3, refused
    assert _FINDING in refused.stderr and "Give the nodes credentials" in refused.stderr, refused
    assert private.releases() == before
    # `adopt` has no --skip.
    private.change_settings({"checks": {"severities": {_FINDING: "warning"}}})
    undone = private.upgrader("adopt", "--yes")
    assert undone.exit_code == 4, undone
    assert "give the node credentials" in undone.stderr, undone
    until("kubeadm's control plane", lambda: not private.unready(), timeout_seconds=120)


def test_images_are_pulled_before_the_run_changes_anything(private: LabCluster) -> None:
    """Each node pulls as its kubelet would for the workloads: here with the node's own login. What is then on the nodes
    has the registry's digest, and the upgrade that follows pulls nothing more.
    """
    assert private.upgrader("adopt", "--yes").exit_code == 0
    private.wait_healthy(OLD)
    ended = private.run()
    assert ended.exit_code == 0, ended
    notes = [record["data"]["text"] for record in private.journal() if record["type"] == "Note"]
    assert any(f"kube-apiserver:{TARGET} is sha256:" in note for note in notes), notes
    assert "all images are on their nodes; 1 node had to pull images" in notes
    private.wait_healthy(TARGET)


def test_images_need_the_workloads_own_login(private: LabCluster) -> None:
    """Without the node's login, and without pull secrets, nothing can be pulled: the run ends with nothing changed."""
    assert private.upgrader("adopt", "--yes").exit_code == 0
    private.wait_healthy(OLD)
    before = private.releases()
    private.on_controller("rm", _NODE_LOGIN)
    private.change_settings({"images": {"deadline": "30s"}})
    refused = private.run()
    assert refused.exit_code == 4, refused
    assert "before it changed anything" in refused.stderr, refused
    assert private.releases() == before
