"""A recovery from an API server that is wrong, and the required result of one from a bad flag."""

from __future__ import annotations

from testkit.lab_cluster import OLD, LabCluster, until
from testkit.pushed_changes import BAD_FLAG, upgrade
from testkit.wrong_api import WRONG

__all__ = ["assert_recovered", "recover_wrong_api"]


def assert_recovered(cluster: LabCluster, good: object, version: str = OLD) -> None:
    """It is healthy at that version, its releases are as before the bad change, and no standby API server is active."""
    cluster.wait_healthy(version)
    assert cluster.manifests() == good
    assert BAD_FLAG not in str(cluster.manifests())
    assert [name for name in cluster.standby_pods() if "kube-apiserver" in name] == []
    assert cluster.report()["outcome"] == "succeeded"


def recover_wrong_api(cluster: LabCluster, name: str) -> None:
    """Make a change of `WRONG` by Helm alone, and recover as soon as a dry run says that the API is wrong."""
    cluster.wait_until_settled(OLD)  # a standby pod that serves beside it would give good answers
    before = cluster.manifests()
    change = WRONG[name]
    change.prepare(cluster)
    ((flag, value),) = change.flags.items()
    upgrade(cluster, f"extraArgs.{flag}={value}")
    until("the dry run to know that the API is wrong", lambda: _is_wrong(cluster), timeout_seconds=120)

    ended = cluster.upgrader("recover", "--yes")

    assert ended.exit_code == 0, ended
    assert "which does not work correctly" in ended.stderr, ended
    cluster.wait_until_settled(OLD)
    assert cluster.manifests() == before


def _is_wrong(cluster: LabCluster) -> bool:
    return "apiserver.wrong" in cluster.upgrader("recover", "--dry-run").stderr
