"""`upgrader recover` after another client CA: a right and a wrong instance of kube-apiserver answer side by side."""

from __future__ import annotations

from testkit.lab_cluster import OLD, LabCluster, until
from testkit.pushed_changes import upgrade
from testkit.wrong_api import WRONG


def test_replaced_client_ca_is_recovered(cluster: LabCluster) -> None:
    """The kubelet is refused by the new instance, so that the old one may not end: the wrong one is found and replaced
    whether it is alone or not, and its release is rolled back.
    """
    cluster.wait_until_settled(OLD)
    before = cluster.manifests()
    change = WRONG["client CA"]
    change.prepare(cluster)
    ((flag, path),) = change.flags.items()
    upgrade(cluster, f"extraArgs.{flag}={path}")
    until("the new instance to refuse the kubelet", lambda: _is_wrong(cluster), timeout_seconds=120)

    ended = cluster.upgrader("recover", "--yes")

    assert ended.exit_code == 0, ended
    assert "which answers wrongly" in ended.stderr, ended
    cluster.wait_until_settled(OLD)
    assert cluster.manifests() == before


def _is_wrong(cluster: LabCluster) -> bool:
    return "apiserver.wrong" in cluster.upgrader("recover", "--dry-run").stderr
