"""One run at a time on a real cluster: from another folder, and after a kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from testkit.command import REPOSITORY, upgrader
from testkit.faults.proxy import Fault, FaultProxy, Upstream
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.waiting import stretched
from upgrader.engine.locks.cluster_lock import read_lease

TICKS = "/var/tmp/ticks"
PLAYBOOK = f"""\
- hosts: controllers
  gather_facts: false
  tasks:
    - ansible.builtin.shell: "echo {{{{ lookup('env', 'WHO') }}}} >> {TICKS}; sleep 1"
      loop: "{{{{ range(lookup('env', 'TIMES') | int) | list }}}}"
"""
"""Notes on the controller who runs it, as often as its process says."""


def holder(cluster: LabCluster) -> str:
    """The holder of the cluster's lock; "" if it is free."""
    lease = read_lease(cluster.kube)
    return str(lease.holder) if lease and lease.holder else ""


def copy_of(cluster: LabCluster, folder: Path) -> Path:
    """The cluster folder on another machine, without its runs."""
    shutil.copytree(cluster.folder, folder, ignore=shutil.ignore_patterns("runs", "*.img", "machines"))
    return folder


def test_second_run_is_turned_away_and_a_killed_one_is_no_obstacle(cluster: LabCluster, tmp_path: Path) -> None:
    """A second run from another folder ends with 6 and names the first; after a kill the same folder runs again at
    once, names the holder that it took over from, and frees the lock."""
    # Not the releases: a Helm outlives the run that is killed, and the next one would rightly wait for it.
    (cluster.folder / "tick.yml").write_text(PLAYBOOK)
    cluster.change_settings({"pipeline": [{"playbook": "tick.yml"}], "availability": {"requestsPerSecond": 0}})
    command = [sys.executable, "-m", "upgrader", "-C", str(cluster.folder), "run", "--to", OLD, "--yes"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "WHO": "first", "TIMES": "400"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        try:
            until("a run that holds the lock", lambda: "-v1.36.3" in holder(cluster), timeout_seconds=120)
            second = upgrader("-C", copy_of(cluster, tmp_path / "copy"), "run", "--to", OLD, "--yes")
            assert second.exit_code == 6, second
            assert f"process {first.pid}" in second.stderr, second
        finally:
            first.send_signal(signal.SIGKILL)
    assert f"process {first.pid}" in holder(cluster), "the killed run did not free the lock"
    again = upgrader(
        "-C", cluster.folder, "run", "--to", OLD, "--new", "--yes", environment={"WHO": "again", "TIMES": "1"}
    )
    assert again.exit_code == 0, again
    taken = [record["data"] for record in cluster.journal() if record["type"] == "LockTakenOver"]
    assert len(taken) == 1 and taken[0]["why"] == "its process has ended"
    assert holder(cluster) == ""


def test_playbook_ends_before_another_machine_runs_it(cluster: LabCluster, tmp_path: Path) -> None:
    """A machine runs a playbook, and the API doesn't answer it any more, while SSH works. Another machine resumes the
    run: the first one's Ansible has ended before the second one's begins, and the first run ends with 130."""
    (cluster.folder / "tick.yml").write_text(PLAYBOOK)
    cluster.change_settings({"pipeline": [{"playbook": "tick.yml"}], "availability": {"requestsPerSecond": 0}})
    cluster.on_controller("rm", "-f", TICKS)
    anna, ben = copy_of(cluster, tmp_path / "anna"), copy_of(cluster, tmp_path / "ben")
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
