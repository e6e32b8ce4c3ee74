"""Power cuts in roll-outs: of kube-apiserver, and of the pod-checkpointer, which is what survives them.

Ten more, at random moments of an upgrade: `python -m bench.recovery --only none --cuts 10`.
"""

from __future__ import annotations

import json

from testkit.command import REPOSITORY, running
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from upgrader.ports import Kind

_PODS = Kind("v1", "pods")


def test_power_cut_while_two_api_servers_run(cluster: LabCluster) -> None:
    """In the middle of the kube-apiserver step the power is cut: the control plane comes back by itself."""
    with running("-C", cluster.folder, "run", "--to", TARGET, "--yes") as run:
        until("the new kube-apiserver beside the old one", lambda: len(_api_servers(cluster)) > 1, timeout_seconds=180)
        cluster.cut_power()
        output, _ = run.communicate(timeout=600)

    # Whichever way the run went on (to the target, back, or to a person), it says so with a code of the contract.
    assert run.returncode in (0, 4, 5), output
    until("every pod of the control plane", lambda: not cluster.unready(), timeout_seconds=180)
    assert cluster.versions()["kube-apiserver"] in (OLD, TARGET)


def test_power_cuts_in_the_checkpointers_own_roll_out(cluster: LabCluster) -> None:
    """Cut while a version without an image replaces it, and cut in the roll back: its predecessor's copy is there."""
    good = _image_of_the_copy(cluster)
    chart = str(REPOSITORY / "charts" / "pod-checkpointer")
    cluster.helm("upgrade", "pod-checkpointer", chart, "--reuse-values", "--set", "image.tag=does-not-exist")
    until("a pod that can't start", lambda: _waits_for_an_image(cluster), timeout_seconds=120)
    cluster.cut_power()
    assert _image_of_the_copy(cluster) == good

    cluster.helm("rollback", "pod-checkpointer")
    until("a pod that can", lambda: not _waits_for_an_image(cluster), timeout_seconds=120)
    cluster.cut_power()
    until("every pod of the control plane", lambda: not cluster.unready(), timeout_seconds=180)
    assert _image_of_the_copy(cluster) == good


def _waits_for_an_image(cluster: LabCluster) -> bool:
    """Whether any pod of the checkpointer's DaemonSet has no image to start from."""
    pods = cluster.kube.list(_PODS, "kube-system", labels="app.kubernetes.io/name=pod-checkpointer")
    return not pods or any(
        status.get("state", {}).get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff")
        for pod in pods
        for status in pod.get("status", {}).get("containerStatuses", [])
    )


def _image_of_the_copy(cluster: LabCluster) -> str:
    """The image of the checkpointer's own static copy, by the controller's disk."""
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
