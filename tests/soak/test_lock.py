"""One run at a time on a real cluster: from another folder, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from testkit.command import REPOSITORY, upgrader
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.ticking import PLAYBOOK
from upgrader.engine.locks.cluster_lock import read_lease


def holder(cluster: LabCluster) -> str:
    """The holder of the cluster's lock; "" if it is free."""
    lease = read_lease(cluster.kube)
    return str(lease.holder) if lease and lease.holder else ""


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
            second = upgrader("-C", cluster.copy_to(tmp_path / "copy"), "run", "--to", OLD, "--yes")
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
