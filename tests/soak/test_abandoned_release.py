"""A release on which a killed Helm has left its mark."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import yaml

from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.model.release import abandoned_after

_HELM = REPOSITORY / ".venv" / "bin" / "helm"


def test_release_stuck_in_pending_upgrade(cluster: LabCluster) -> None:
    """A release that a killed Helm left pending is refused with a remedy while Helm may run, and freed afterwards."""
    before = cluster.manifests()["kube-apiserver"]
    _kill_helm_half_way(cluster)
    written = time.monotonic()

    ended = cluster.run(OLD)
    assert ended.exit_code == 3, ended
    assert "pending-upgrade" in ended.stderr and "Run the same command again when the revision is" in ended.stderr

    cluster.change_settings({"helm": {"timeout": "30s"}})
    time.sleep(max(0.0, written + abandoned_after(30) - time.monotonic()))
    ended = cluster.run(OLD)
    assert ended.exit_code == 0, ended
    assert cluster.manifests()["kube-apiserver"] == before
    cluster.wait_healthy(OLD)


def _kill_helm_half_way(cluster: LabCluster) -> None:
    """Start an upgrade that waits for an image that doesn't exist, and kill it once Helm has written its revision."""
    values = yaml.safe_load((cluster.folder / "values" / "kube-apiserver.yaml").read_text())
    values["image"] = {**values.get("image", {}), "tag": "v0.0.0-none"}
    command: list[str | Path] = [
        _HELM,
        "upgrade",
        "kube-apiserver",
        REPOSITORY / "charts" / "kube-apiserver",
        "--values",
        "-",
        "--wait",
    ]
    helm = subprocess.Popen([*command, *_where(cluster)], stdin=subprocess.PIPE)
    try:
        assert helm.stdin is not None
        helm.stdin.write(yaml.safe_dump(values).encode())
        helm.stdin.close()
        until(
            "Helm at work",
            lambda: cluster.releases()["kube-apiserver"]["status"] == "pending-upgrade",
            timeout_seconds=60,
        )
    finally:
        helm.kill()
        helm.wait()


def _where(cluster: LabCluster) -> list[str]:
    return ["--namespace", "kube-system", "--kubeconfig", str(cluster.folder / "kubeconfig")]
