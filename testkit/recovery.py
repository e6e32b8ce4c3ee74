"""What must hold after a recovery from a bad flag."""

from __future__ import annotations

from testkit.lab_cluster import OLD, LabCluster
from testkit.pushed_changes import BAD_FLAG

__all__ = ["assert_recovered"]


def assert_recovered(cluster: LabCluster, good: object, version: str = OLD) -> None:
    """It is healthy at that version, its releases are as before the bad change, no standby API server is active."""
    cluster.wait_healthy(version)
    assert cluster.manifests() == good
    assert BAD_FLAG not in str(cluster.manifests())
    assert [name for name in cluster.standby_pods() if "kube-apiserver" in name] == []
    assert cluster.report()["outcome"] == "succeeded"
