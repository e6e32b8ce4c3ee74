"""`upgrader init` on a real cluster: the folder that it writes is one that works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from testkit.command import REPOSITORY, upgrader
from testkit.lab_cluster import LabCluster
from testkit.waiting import stretched


def test_folder_of_a_cluster_that_runs(cluster: LabCluster, tmp_path: Path) -> None:
    """With a kubeconfig alone: the machines are found, their fingerprints are theirs, and SSH and the API work."""
    folder, key = tmp_path / "mine", cluster.folder / "ssh" / "id_ed25519"
    before = ["-C", str(folder), "--kubeconfig", str(cluster.folder / "kubeconfig"), "init", "--ssh-key", str(key)]
    done = subprocess.run(
        [sys.executable, "-m", "upgrader", *before],
        input="y\ny\n",
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=stretched(120),
        check=False,
    )
    assert done.returncode == 0, done
    theirs = cluster.folder / "ssh" / "known_hosts"
    listed = subprocess.run(["ssh-keygen", "-lf", str(theirs)], capture_output=True, text=True, check=True).stdout
    assert all(line.split()[1] in done.stdout for line in listed.splitlines())
    assert (folder / "ssh" / "known_hosts").read_text() == theirs.read_text()
    assert "releases of upgrader's charts" in done.stdout
    written, known = (yaml.safe_load((each / "hosts.yml").read_text()) for each in (folder, cluster.folder))
    assert written["all"]["children"]["controllers"] == known["all"]["children"]["controllers"]
    assert upgrader("-C", folder, "certs", "show", timeout_seconds=60).exit_code == 0
    status = upgrader("-C", folder, "history", timeout_seconds=60)
    assert status.exit_code == 0, status
