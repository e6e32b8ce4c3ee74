"""`kubectl edit` of kube-apiserver, and `recover`. More: tests/e2e/test_recover.py."""

from __future__ import annotations

from testkit.lab_cluster import LabCluster, until
from testkit.pushed_changes import BAD_FLAG, edit
from testkit.recovery import assert_recovered


def test_edited_by_hand(cluster: LabCluster) -> None:
    """Changes and additions by `kubectl edit` are reverted while the API answers."""
    good = cluster.manifests()
    edit(cluster)
    until("the new pod to crash", lambda: cluster.crashed(BAD_FLAG), timeout_seconds=120)
    dry = cluster.upgrader("recover", "--dry-run")
    assert dry.exit_code == 7, dry
    assert BAD_FLAG in dry.stderr, dry
    ended = cluster.upgrader("recover", "--yes")
    assert ended.exit_code == 0, ended
    assert "ADDED_BY_HAND" in ended.stderr, ended
    assert_recovered(cluster, good)
