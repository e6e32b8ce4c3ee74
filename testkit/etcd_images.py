"""Other images of etcd for a lab's controllers: another version, and one that ends at once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from testkit.waiting import stretched
from upgrader.lab.debian import base_layer
from upgrader.lab.image_catalog import etcd_image
from upgrader.lab.lifecycle import Lab
from upgrader.lab.oci_archive import Image, layer_of_files, write_archive
from upgrader.lab.progress_port import Silent

__all__ = ["OTHER_ETCD", "WORDS", "broken_etcd", "import_images", "other_etcd"]

OTHER_ETCD = "v3.6.14"
"""A later patch of what labs run."""
WORDS = "panic: this etcd was built wrong"


def other_etcd(version: str = OTHER_ETCD) -> Image:
    """Built once for each machine: 75 s."""
    return etcd_image(Silent(), version)


def broken_etcd(folder: Path) -> Image:
    """Its etcd says that it is broken, and ends."""
    program = folder / "etcd"
    program.write_text(f"#!/bin/sh\necho '{WORDS}' >&2\nexit 1\n")
    program.chmod(0o755)
    layer = layer_of_files("etcd-that-ends", {"/usr/local/bin/etcd": program})
    return Image("registry.k8s.io/etcd:3.6.15-0", (base_layer(Silent()), layer))


def import_images(lab: str, nodes: Iterable[str], images: Iterable[Image], folder: Path) -> None:
    """Import images into the containerd of some nodes of a lab."""
    archive, found = folder / "etcd-images.tar", Lab.find(lab)
    write_archive(tuple(images), archive)
    for node in nodes:
        with archive.open("rb") as content:
            command = [*found.ssh(node), "ctr -n k8s.io images import -"]
            subprocess.run(command, stdin=content, check=True, capture_output=True, timeout=stretched(300))
    archive.unlink()
