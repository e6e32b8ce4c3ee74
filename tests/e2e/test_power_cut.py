"""Power cuts during rollouts of kube-apiserver, and of the pod-checkpointer, which has to survive them.

Ten more, at random moments of an upgrade: `python -m bench.recovery --only none --cuts 10`.
"""

from __future__ import annotations

import json

from testkit.command import REPOSITORY, running
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


def test_power_cuts_in_the_checkpointers_own_roll_out(cluster: LabCluster) -> None:
    """After a cut while a version without an image rolls out, and after one in its rollback, the old version's standby
    pod remains."""
    good = _standby_image(cluster)
    chart = str(REPOSITORY / "charts" / "pod-checkpointer")
    cluster.helm("upgrade", "pod-checkpointer", chart, "--reuse-values", "--set", "image.tag=does-not-exist")
    until("a pod that can't start", lambda: _waits_for_an_image(cluster), timeout_seconds=120)
    cluster.cut_power()
    assert _standby_image(cluster) == good

    cluster.helm("rollback", "pod-checkpointer")
    until("a pod that can", lambda: not _waits_for_an_image(cluster), timeout_seconds=120)
    cluster.cut_power()
    until("every pod of the control plane", lambda: not cluster.unready(), timeout_seconds=180)
    assert _standby_image(cluster) == good


def _waits_for_an_image(cluster: LabCluster) -> bool:
    """Whether any pod of the checkpointer's DaemonSet waits for its image."""
    pods = cluster.kube.list(_PODS, "kube-system", labels="app.kubernetes.io/name=pod-checkpointer")
    return not pods or any(
        status.get("state", {}).get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff")
        for pod in pods
        for status in pod.get("status", {}).get("containerStatuses", [])
    )


def _standby_image(cluster: LabCluster) -> str:
    """The image of the checkpointer's own standby pod, by the manifest on the controller."""
    manifest = cluster.on_controller("cat", "/etc/kubernetes/manifests/checkpoint-kube-system.pod-checkpointer.json")
    image: str = json.loads(manifest)["spec"]["containers"][0]["image"]
    return image


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
