"""Clusters that have the images of Kubernetes' tests: the tested one, and one that upgrader never touched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testkit.command import must, upgrader
from testkit.lab_cluster import LabCluster
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.existing_labs import find
from upgrader.lab.image_delivery import deliver
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.oci_archive import Image

__all__ = ["WORKERS", "bring", "plain_cluster"]

WORKERS = ("--workers", "2")
"""Many specs want two nodes for ordinary pods."""


@contextmanager
def plain_cluster(version: str, images: Sequence[Image]) -> Iterator[LabCluster]:
    """A cluster as kubeadm made it, of the same shape, never adopted nor upgraded."""
    name = f"plain-{os.getpid()}"
    with tempfile.TemporaryDirectory() as home:
        try:
            must(upgrader("-C", home, "lab", "up", "--name", name, "--kubernetes", version, *WORKERS))
            cluster = LabCluster(name, Path(home), Path(home) / "kept", version=version)
            try:
                bring(images, cluster)
                yield cluster
            finally:
                cluster.kube.close()
        finally:
            upgrader("-C", home, "lab", "down", "--force", "--name", name)


def bring(images: Sequence[Image], cluster: LabCluster) -> None:
    """Import the images into each node that lacks them."""
    placement = find(cluster.name)
    if placement is None:
        raise SystemExit(f"there is no lab {cluster.name} on this machine")
    runner = CommandRunner()
    deliver(images, placement, KubeadmCluster(placement, runner), runner)
