"""A power cut during a rollout of kube-apiserver. More: `bench.recovery`, at random moments of an upgrade."""

from __future__ import annotations

from testkit.command import running
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.waiting import stretched
from upgrader.ports import Kind

_PODS = Kind("v1", "pods")


def test_power_cut_while_two_api_servers_run(cluster: LabCluster) -> None:
    """After a power cut in the kube-apiserver step the control plane recovers, at the version that the run reports.

    Whether the run succeeds or rolls back is a race: Helm may lose its connection or not, and the API is unreachable
    for about as long as the availability gate allows. Exit 5 means that the rollback failed; then `upgrader resume`
    must complete it.
    """
    # An earlier test may have left a standby pod that is still being deactivated: it is no new kube-apiserver.
    until("a single kube-apiserver", lambda: len(_api_servers(cluster)) == 1, timeout_seconds=120)
    before = cluster.manifests()
    with running("-C", cluster.folder, "run", "--to", TARGET, "--new", "--yes") as run:
        until("the new kube-apiserver beside the old one", lambda: len(_api_servers(cluster)) > 1, timeout_seconds=180)
        cluster.cut_power()
        output, _ = run.communicate(timeout=stretched(600))

    assert run.returncode in (0, 4, 5), output
    until("every pod of the control plane", lambda: not cluster.unready(), timeout_seconds=180)
    if run.returncode == 0:
        assert cluster.report()["outcome"] == "succeeded", output
        cluster.wait_healthy(TARGET)
        return
    if run.returncode == 5:
        assert cluster.report()["outcome"] == "failed", output
        ended = cluster.upgrader("resume", "--yes")
        assert ended.exit_code == 4, f"{output}\n{ended}"
    assert cluster.report()["outcome"] == "rolled-back", output
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before


def _api_servers(cluster: LabCluster) -> list[str]:
    """The pods of kube-apiserver whose containers have started."""
    return [
        pod["metadata"]["name"]
        for pod in cluster.kube.list(_PODS, "kube-system")
        if any(
            status["name"] == "kube-apiserver" and status.get("started") is not None and "running" in status["state"]
            for status in pod.get("status", {}).get("containerStatuses", [])
        )
    ]
