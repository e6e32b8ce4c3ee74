"""`upgrader recover` after bad changes that bypassed `upgrader`. More in tests/soak."""

from __future__ import annotations

from testkit.kills import kill_at
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.pushed_changes import BAD_FLAG, upgrade
from testkit.recovery import assert_recovered


def test_healthy_cluster_needs_no_recovery(cluster: LabCluster) -> None:
    """On a healthy cluster `recover` reports that, changes nothing, and creates no run."""
    cluster.wait_until_settled(OLD)
    before = cluster.releases(), cluster.runs()
    ended = cluster.upgrader("recover", "--yes")
    assert ended.exit_code == 0, ended
    assert "Nothing to recover" in ended.stderr, ended
    assert (cluster.releases(), cluster.runs()) == before


def test_controller_that_is_not_there(cluster: LabCluster) -> None:
    """A name that is not in the inventory is refused, with the names that are."""
    ended = cluster.upgrader("recover", "--host", "controller-9")
    assert ended.exit_code == 2, ended
    assert "controller-1" in ended.stderr


def test_plain_helm_upgrade_and_a_power_cut(cluster: LabCluster) -> None:
    """A revision that Helm calls deployed crashes, and the power is cut: a recovery that is killed and repeated
    restores the release's good revision and deactivates the standby pod.
    """
    good = cluster.manifests()
    upgrade(cluster)
    until("the new pod to crash", lambda: cluster.crashed(BAD_FLAG), timeout_seconds=120)
    cluster.crash_and_boot()
    dry = cluster.upgrader("recover", "--dry-run")
    assert dry.exit_code == 7, dry
    kill_at(cluster, "helm rollback", "recover", "--yes")
    ended = cluster.upgrader("recover", "--yes")
    assert ended.exit_code == 0, ended
    assert_recovered(cluster, good)
