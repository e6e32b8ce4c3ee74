"""The playbooks that come with upgrader, on a real machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testkit.command import REPOSITORY
from testkit.lab_cluster import LabCluster
from testkit.waiting import stretched


def checks(cluster: LabCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run playbooks/checks.yml against the cluster's inventory."""
    playbook = str(REPOSITORY / "playbooks" / "checks.yml")
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        str(cluster.folder / "hosts.yml"),
        playbook,
    ]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=stretched(120), check=False)


def test_checks_pass_and_change_nothing(cluster: LabCluster) -> None:
    """A healthy controller passes every check, and nothing counts as changed."""
    ended = checks(cluster)
    assert ended.returncode == 0, ended.stdout
    assert "changed=0" in ended.stdout


def test_checks_list_everything_that_is_wrong(cluster: LabCluster) -> None:
    """Too little disk space and expiring certificates are in one message, with the files' names."""
    ended = checks(
        cluster, "-e", "controller_checks_disk_free_mib=999999999", "-e", "controller_checks_certificate_days=4000"
    )
    assert ended.returncode != 0
    for file in ("/var/lib/etcd", "/var/lib/kubelet", "/etc/kubernetes/pki/apiserver.crt"):
        assert file in ended.stdout
    assert "changed=0" in ended.stdout
