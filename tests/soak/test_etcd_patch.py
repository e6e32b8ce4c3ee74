"""etcd's image on one controller, under load: another patch, and back."""

from __future__ import annotations

import json
from pathlib import Path

from testkit.api_load import ApiLoad
from testkit.etcd_images import OTHER_ETCD, import_images, other_etcd
from testkit.lab_cluster import OLD, LabCluster
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.model.workload import Pod
from upgrader.ports import Kind

_PODS = Kind("v1", "pods")
_MANIFEST = "/etc/kubernetes/manifests/etcd.yaml"

PATIENCE_SECONDS = 60.0
"""Requests wait while etcd restarts, and none may fail. A client gives up when kube-apiserver itself would; client-go
and kubectl have no deadline of their own.
"""


def test_another_patch_and_back(cluster: LabCluster, tmp_path: Path) -> None:
    """No request fails. In the manifest, only the image changes, beside the UID that keeps the pod."""
    first, other = f"registry.k8s.io/etcd:{IMAGE_VERSIONS['etcd']}", other_etcd()
    import_images(cluster.name, ("controller-1",), (other,), tmp_path)
    before = _unpinned(cluster)
    assert f"image: {first}\n" in before

    cluster.change_settings({"etcd": {"image": other.name}})
    with ApiLoad(cluster.folder / "kubeconfig", timeout_seconds=PATIENCE_SECONDS) as load:
        ended = cluster.run(OLD)
        assert ended.exit_code == 0, ended
        assert _unpinned(cluster) == before.replace(first, other.name)
        assert _runs(cluster) == OTHER_ETCD.removeprefix("v")
        back = cluster.upgrader("rollback", "--yes")
        seen = load.stop()
    assert back.exit_code == 0, back
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    assert _unpinned(cluster) == before and _runs(cluster) == IMAGE_VERSIONS["etcd"].partition("-")[0]
    assert _shown(cluster) == [(first, True)]


def _shown(cluster: LabCluster) -> list[tuple[str, bool]]:
    """The image of etcd's pod as the API has it, and whether it is Ready."""
    pods = cluster.kube.list(_PODS, "kube-system", labels="component=etcd")
    return [(str(pod["spec"]["containers"][0]["image"]), Pod.parse(pod).ready) for pod in pods]


def _unpinned(cluster: LabCluster) -> str:
    """The manifest, without the line that keeps the pod and the comment before it."""
    lines = cluster.on_controller("cat", _MANIFEST).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("  uid:", "  # So that another kubelet")))


def _runs(cluster: LabCluster) -> str:
    """The version that etcd itself reports."""
    files = [f"--{flag}=/etc/kubernetes/pki/etcd/{name}" for flag, name in _CLIENT.items()]
    (answer,) = json.loads(cluster.on_controller("etcdctl", *files, "endpoint", "status", "--write-out=json"))
    return str(answer["Status"]["version"])


_CLIENT = {"cacert": "ca.crt", "cert": "healthcheck-client.crt", "key": "healthcheck-client.key"}
