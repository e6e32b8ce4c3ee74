"""`upgrader recover` where the API answers, and is wrong: nobody ran `upgrader`, and Helm can't roll it back."""

from __future__ import annotations

import contextlib

from testkit.lab_cluster import OLD, LabCluster, until
from testkit.pushed_changes import upgrade
from upgrader.errors import ApiError
from upgrader.ports import Kind

_DEPLOYMENTS = Kind("apps/v1", "deployments")


def test_wrong_api_is_replaced(cluster: LabCluster) -> None:
    """An API that is ready, and refuses what a rollback needs, is replaced over SSH; its release is rolled back."""
    cluster.wait_until_settled(OLD)  # a standby pod that serves beside it would give good answers
    before = cluster.manifests()
    upgrade(cluster, "extraArgs.runtime-config=apps/v1=false")
    until("the new instance to be all that answers", lambda: _refused(cluster), timeout_seconds=120)

    seen = cluster.upgrader("recover", "--dry-run")
    assert "apiserver.wrong" in seen.stderr, seen
    ended = cluster.upgrader("recover", "--yes")

    assert ended.exit_code == 0, ended
    assert "which answers wrongly" in ended.stderr, ended
    cluster.wait_until_settled(OLD)
    assert cluster.manifests() == before


def _refused(cluster: LabCluster) -> bool:
    """Whether three answers in a row, each on a new connection, are refusals."""
    for _ in range(3):
        cluster.kube.close()
        with contextlib.suppress(ApiError):
            cluster.kube.list(_DEPLOYMENTS, "kube-system")
            return False
    return True
