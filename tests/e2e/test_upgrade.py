"""The main job: one controller, one minor version, no outage."""

from __future__ import annotations

from testkit.api_load import ApiLoad
from testkit.lab_cluster import OLD, RELEASES, TARGET, LabCluster
from testkit.versions import kubeadms_version
from testkit.workload import Workload
from upgrader.gates.kubernetes_kinds import SECRETS, WORKLOADS

_COMPARISON = "app.kubernetes.io/name=upgrader-continuity"


def test_upgrade_under_load(cluster: LabCluster) -> None:
    """Every component reaches the target; no request of the workload fails, no pod restarts, the API stays available.

    Also for a pod that uses the ClusterIP, and for a client from outside that writes through one kept connection. No
    object by which the old and the new API server are compared is left in the cluster.
    """
    workload = Workload(cluster.kube)
    workload.deploy()
    pods = workload.pods()
    # They may have counted outages of earlier tests.
    client, operator = workload.tally("client").failed, workload.tally("operator").failed
    assert kubeadms_version(cluster.kube) == OLD
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.run()
        seen = load.stop()

    assert ended.exit_code == 0, ended
    cluster.wait_healthy(TARGET)
    assert kubeadms_version(cluster.kube) == TARGET, "a controller that joins gets static pods of this version"
    assert workload.pods().disturbances_since(pods) == ()
    assert seen.failed == 0, seen
    assert workload.tally("client").failed == client, workload.tally("client")
    assert workload.tally("operator").failed == operator, workload.tally("operator")
    workload.stop()
    kinds = (SECRETS, WORKLOADS["Deployment"])
    assert [cluster.kube.list(kind, "kube-system", labels=_COMPARISON) for kind in kinds] == [(), ()]


def test_report_of_an_upgrade(upgraded_cluster: LabCluster) -> None:
    """The run's report has its outcome, each step with its gates, and what the API's clients saw."""
    report = upgraded_cluster.report()
    assert report["outcome"] == "succeeded"
    assert [step["name"] for step in report["steps"]] == ["images", "trial", *RELEASES, "kubeadm-config"]
    assert {step["outcome"] for step in report["steps"]} == {"passed"}
    # The checkpointer doesn't change: its gates are checked after kube-apiserver, the first release that does.
    assert [bool(step["gates"]) for step in report["steps"]] == [False, False, False, True, True, True]
    held = {gate["name"] for gate in report["steps"][3]["gates"]}
    assert {"checkpoint", "apiserver", "critical-pods"} <= held
    assert report["availability"]["requests"] > 100
    assert report["availability"]["failed"] == 0, report["availability"]
    assert report["availability"]["longest_gap_ms"] > 0
    page = upgraded_cluster.page()
    assert "<title>Succeeded: Upgrade to" in page and "deployment/kube-apiserver" in page


def test_nodes_that_have_their_images_are_not_asked(upgraded_cluster: LabCluster) -> None:
    """Nodes whose images were loaded beforehand list them: no pod is created for that."""
    notes = [record["data"]["text"] for record in upgraded_cluster.journal() if record["type"] == "Note"]
    assert "all images are on their nodes; no node lacked any" in notes


def test_second_run_changes_nothing(upgraded_cluster: LabCluster) -> None:
    """A run to the current version leaves every release at its revision, and succeeds."""
    before = upgraded_cluster.releases()
    ended = upgraded_cluster.run(TARGET)
    assert ended.exit_code == 0, ended
    assert upgraded_cluster.releases() == before


def test_power_cut_after_the_upgrade(upgraded_cluster: LabCluster) -> None:
    """After a power cut of the only controller the upgraded control plane recovers by itself."""
    upgraded_cluster.cut_power()
    upgraded_cluster.wait_healthy(TARGET, timeout_seconds=180)
