"""Power cuts in the rollout of the pod-checkpointer, which has to survive them."""

from __future__ import annotations

import json

from testkit.command import REPOSITORY
from testkit.lab_cluster import LabCluster, until
from upgrader.ports import Kind

_PODS = Kind("v1", "pods")


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
