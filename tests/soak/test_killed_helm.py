"""A run whose Helm is killed, so that Helm can't roll back."""

from __future__ import annotations

import os
import signal

from testkit.command import running
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.processes import children
from testkit.waiting import stretched

_BAD_FLAG = {"max-requests-inflight": "many"}


def test_helm_killed_in_the_middle_of_a_bad_change(cluster: LabCluster) -> None:
    """If Helm is killed during a bad change, the run rolls it back and ends with 4, and the API stays available."""
    before = cluster.manifests()
    cluster.change_values("kube-apiserver", {"extraArgs": _BAD_FLAG})
    skipping = ("--skip", "trial.refused", "--reason", "a test")
    with running("-C", cluster.folder, "run", "--to", OLD, "--yes", *skipping) as run:
        until("Helm at work on kube-apiserver", lambda: _pending(cluster), timeout_seconds=120)
        (helm,) = children(run.pid, "helm")
        os.kill(helm, signal.SIGKILL)
        output, _ = run.communicate(timeout=stretched(240))

    assert run.returncode == 4, output
    assert "Helm was killed (signal 9)" in output
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
    report = cluster.report()
    assert report["outcome"] == "rolled-back"
    assert report["recoveries"] == [], "the API was never away"
    assert report["availability"]["failed"] == 0, report["availability"]


def _pending(cluster: LabCluster) -> bool:
    return bool(cluster.releases()["kube-apiserver"]["status"] == "pending-upgrade")
