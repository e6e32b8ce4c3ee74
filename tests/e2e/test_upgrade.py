"""The main job: one controller, one minor version further, and nobody notices."""

from __future__ import annotations

from testkit.api_load import ApiLoad
from testkit.lab_cluster import RELEASES, TARGET, LabCluster
from testkit.workload import Workload


def test_upgrade_under_load(cluster: LabCluster) -> None:
    """Every component gets to the target; no request of the workload fails, no pod restarts, and the API is never away.

    Nor for a pod that asks it through the ClusterIP. From outside one write may meet the end of the old instance on a
    kept HTTP/1.1 connection, and nothing else may fail.
    """
    workload = Workload(cluster.kube)
    workload.deploy()
    pods, asked_before = workload.pods(), workload.tally("operator")
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.run()
        seen = load.stop()

    assert ended.exit_code == 0, ended
    cluster.wait_healthy(TARGET)
    assert workload.pods().disturbances_since(pods) == ()
    assert seen.failed == seen.lost_writes <= 1, seen
    assert workload.tally("client").failed == 0, workload.tally("client")
    # It may have lived through other tests, whose outages of the API it counted.
    assert workload.tally("operator").failed == asked_before.failed, workload.tally("operator")


def test_report_of_an_upgrade(upgraded_cluster: LabCluster) -> None:
    """The report of the run says how it ended, each step with its gates, and what the API's clients saw."""
    report = upgraded_cluster.report()
    assert report["outcome"] == "succeeded"
    assert [step["name"] for step in report["steps"]] == list(RELEASES)
    assert {step["outcome"] for step in report["steps"]} == {"passed"}
    # The checkpointer doesn't change: its gates are held behind kube-apiserver, the first that does.
    assert [bool(step["gates"]) for step in report["steps"]] == [False, True, True]
    held = {gate["name"] for gate in report["steps"][1]["gates"]}
    assert {"checkpoint", "apiserver", "critical-pods"} <= held
    assert report["availability"]["requests"] > 100
    assert report["availability"]["failed"] == 0, report["availability"]
    assert report["availability"]["longest_gap_ms"] > 0


def test_second_run_changes_nothing(upgraded_cluster: LabCluster) -> None:
    """A run to the version that the cluster is at leaves every release at its revision, and ends well."""
    before = upgraded_cluster.releases()
    ended = upgraded_cluster.run(TARGET)
    assert ended.exit_code == 0, ended
    assert upgraded_cluster.releases() == before


def test_power_cut_after_the_upgrade(upgraded_cluster: LabCluster) -> None:
    """After a power cut of the only controller the upgraded control plane comes back by itself."""
    upgraded_cluster.cut_power()
    upgraded_cluster.wait_healthy(TARGET, timeout_seconds=180)
