"""The pod-checkpointer's image as an OCI archive for all architectures, with a list of what is in each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from release.bill_of_materials import write_bill_of_materials
from upgrader import __version__
from upgrader.lab.checkpointer_image import checkpointer_image
from upgrader.lab.oci_archive import write_platforms
from upgrader.lab.progress_port import Silent

__all__ = ["ARCHITECTURES", "write_images"]

ARCHITECTURES = ("amd64", "arm64")


def write_images(folder: Path) -> None:
    """`pod-checkpointer-VERSION.tar`, and `….ARCHITECTURE.cdx.json`; needs root, for Debian's packages."""
    folder.mkdir()
    name = f"pod-checkpointer:{__version__}"
    images = [replace(checkpointer_image(Silent(), each), name=name) for each in ARCHITECTURES]
    stem = f"pod-checkpointer-{__version__}"
    write_platforms(images, folder / f"{stem}.tar")
    for image in images:
        write_bill_of_materials(image, folder / f"{stem}.{image.architecture}.cdx.json")
