"""Sends images to running nodes: only the layers that a node lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.existing_labs import lab_dir
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.oci_archive import Image, digest, write_archive
from upgrader.lab.spec import Placement

__all__ = ["deliver"]


def deliver(images: Sequence[Image], placement: Placement, cluster: KubeadmCluster, runner: CommandRunner) -> None:
    """Import images into every Kubernetes node that lacks one of them, without layers that all of these have."""
    nodes = [node for node in placement.nodes if node.kubernetes]
    present = {node: cluster.images(node) for node in nodes}
    missing = [image for image in images if not all(image.name in names for names, _ in present.values())]
    if not missing:
        return
    wanting = [node for node in nodes if not present[node][0].issuperset(image.name for image in missing)]
    common = set.intersection(*(present[node][1] for node in wanting))
    known = {layer for image in missing for layer in image.layers if digest(layer) in common}
    archive = lab_dir(placement.spec.name) / "images.tar"
    try:
        write_archive(missing, archive, without=known)
        runner.together([partial(cluster.import_images, node, archive) for node in wanting])
    finally:
        archive.unlink(missing_ok=True)
