"""What is so after a recovery from a bad flag."""

from __future__ import annotations

from bench.pushed import BAD_FLAG
from tests.labs import OLD, LabCluster

__all__ = ["assert_recovered"]

_COPY = "checkpoint-kube-system.kube-apiserver.json"


def assert_recovered(cluster: LabCluster, good: object) -> None:
    """The releases are what they were before the bad change, nothing stands in, and all is healthy."""
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == good
    assert BAD_FLAG not in str(cluster.manifests())
    assert _COPY not in cluster.on_controller("ls", "/etc/kubernetes/manifests")
    assert cluster.report()["outcome"] == "succeeded"
