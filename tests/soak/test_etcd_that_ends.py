"""An image of etcd that ends at once, on the only controller: no API is there to put it back with."""

from __future__ import annotations

from pathlib import Path

from testkit.etcd_images import WORDS, broken_etcd, import_images
from testkit.lab_cluster import OLD, LabCluster
from upgrader.lab.image_catalog import IMAGE_VERSIONS


def test_the_old_image_is_back_by_itself(cluster: LabCluster, tmp_path: Path) -> None:
    """The controller puts it back, the run says what etcd wrote last, and the cluster gets well."""
    first, broken = f"registry.k8s.io/etcd:{IMAGE_VERSIONS['etcd']}", broken_etcd(tmp_path)
    import_images(cluster.name, ("controller-1",), (broken,), tmp_path)
    cluster.change_settings({"etcd": {"image": broken.name}})
    failed = cluster.run(OLD)
    assert failed.exit_code == 4 and WORDS in failed.stderr, failed
    assert f"It runs {first} again, and is healthy." in " ".join(failed.stderr.split()), failed
    assert f"image: {first}\n" in cluster.on_controller("cat", "/etc/kubernetes/manifests/etcd.yaml")
    cluster.wait_until_settled(OLD)
