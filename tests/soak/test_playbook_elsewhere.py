"""A playbook that another machine may still run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testkit.command import REPOSITORY, upgrader
from testkit.faults.proxy import Fault, FaultProxy, Upstream
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.ticking import PLAYBOOK, TICKS
from testkit.waiting import stretched


def test_playbook_ends_before_another_machine_runs_it(cluster: LabCluster, tmp_path: Path) -> None:
    """A machine runs a playbook, and the API doesn't answer it any more, while SSH works. Another machine resumes the
    run: the first one's Ansible has ended before the second one's begins, and the first run ends with 130."""
    (cluster.folder / "tick.yml").write_text(PLAYBOOK)
    cluster.change_settings({"pipeline": [{"playbook": "tick.yml"}], "availability": {"requestsPerSecond": 0}})
    cluster.on_controller("rm", "-f", TICKS)
    anna, ben = cluster.copy_to(tmp_path / "anna"), cluster.copy_to(tmp_path / "ben")
    with FaultProxy(Upstream.of(cluster.folder / "kubeconfig", tmp_path), tmp_path) as proxy:
        proxy.write_kubeconfig(anna / "kubeconfig", like=cluster.folder / "kubeconfig")
        command = [sys.executable, "-m", "upgrader", "-C", str(anna), "run", "--to", OLD, "--yes"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "WHO": "anna", "TIMES": "400"}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as first:
            try:
                until(
                    "the first playbook",
                    lambda: "anna" in cluster.on_controller("sh", "-c", f"cat {TICKS} || :"),
                    timeout_seconds=120,
                )
                proxy.set(Fault.REFUSED)
                second = upgrader("-C", ben, "resume", "--yes", environment={"WHO": "ben", "TIMES": "5"})
                output, _ = first.communicate(timeout=stretched(60))
            finally:
                first.kill()
    assert second.exit_code == 0, second
    assert "may still run the playbook tick.yml" in second.stderr, second
    assert first.returncode == 130 and "taken over by" in output, output
    ticks = cluster.on_controller("cat", TICKS).split()
    assert ticks[ticks.index("ben") :] == ["ben"] * 5, ticks
