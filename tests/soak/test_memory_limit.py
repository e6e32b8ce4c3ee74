"""A change that only lowers a limit: the revisions differ in nothing that a comparison of images and flags sees."""

from __future__ import annotations

from testkit.lab_cluster import LabCluster, until
from testkit.pushed_changes import upgrade
from testkit.recovery import assert_recovered


def test_memory_limit_and_a_power_cut(cluster: LabCluster) -> None:
    """A plain `helm upgrade` that only sets a memory limit, under which kube-apiserver is killed, and a power cut: the
    release is rolled back to the revision before it, though both have the same image and flags.
    """
    good = cluster.manifests()
    upgrade(cluster, "resources.limits.memory=100Mi,resources.requests.memory=100Mi")
    until("kube-apiserver to be killed", cluster.killed_for_memory, timeout_seconds=120)
    cluster.crash_and_boot()
    ended = cluster.upgrader("recover", "--yes")
    assert ended.exit_code == 0, ended
    assert_recovered(cluster, good)
